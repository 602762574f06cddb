// Which server a URL names, and what differs between SQLite, PostgreSQL and MariaDB.
#include "database/server.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "cenote/url.hpp"

namespace cenote::database_detail {

namespace {

/// Empty for the server's default.
std::string clause_for(isolation level) {
    switch (level) {
        case isolation::server_default: break;
        case isolation::read_committed: return " ISOLATION LEVEL READ COMMITTED";
        case isolation::repeatable_read: return " ISOLATION LEVEL REPEATABLE READ";
        case isolation::serializable: return " ISOLATION LEVEL SERIALIZABLE";
    }
    return {};
}

template <class Options>
void take_on_open(Options& where, const database_options& how) {
    if (how.on_open == nullptr) return;
    bool twice = where.on_open != nullptr;
    if constexpr (requires { where.async_on_open; })
        twice = twice || where.async_on_open != nullptr;
    if (twice) throw std::invalid_argument("cenote: on_open is set twice");
    where.on_open = how.on_open;
}

/// `if_trusted`: how sessions are reset if statements are trusted. `of_replica`: the role that a
/// replica must have.
template <class Kind, class Reset, class Role>
server make_networked(typename Kind::options where, const database_options& how, role as,
                      Reset if_trusted, Role of_replica) {
    if constexpr (kinds::has<Kind>) {
        if (where.statement_cache == 0) where.statement_cache = how.statement_cache;
        if (how.trust_statements && where.reset == Reset::with_next) where.reset = if_trusted;
        if (where.role_of_server == Role::any) {
            if (as == role::primary) where.role_of_server = Role::read_write;
            if (as == role::replica) where.role_of_server = of_replica;
        }
        take_on_open(where, how);
        bool resets_in_full = where.reset != if_trusted;
        return {typename Kind::connector(std::move(where)), resets_in_full, 0, how.trace_comments};
    } else {
        throw std::invalid_argument(Kind::left_out);
    }
}

template <class Kind>
server make_local(typename Kind::options where, const database_options& how) {
    if constexpr (kinds::has<Kind>) {
        if (where.statement_cache == 0) where.statement_cache = how.statement_cache;
        take_on_open(where, how);
        // A database in memory is gone with its last connection.
        std::size_t min_size = where.mode == sqlite::open_mode::memory ? 1 : 0;
        return {typename Kind::connector(std::move(where)), true, min_size};
    } else {
        throw std::invalid_argument(Kind::left_out);
    }
}

template <class Kind>
typename Kind::options options_of(std::string_view url) {
    if constexpr (kinds::has<Kind>) return Kind::options::from_url(url);
    else throw invalid_url(Kind::left_out);
}

constexpr const char* set_session_read_only = "SET SESSION TRANSACTION READ ONLY";

/// Calls `verb` with the connection as what it is.
template <class Verb>
auto with_kind(any_connection& c, Verb verb) {
    return with_index(c.index(), [&](auto kind) { return verb(*std::get_if<kind>(&c)); });
}

// A session becomes read-only as its connection permits: SQLite has only_read(), which waits for
// nothing, PostgreSQL also async_only_read(), and MariaDB neither.

template <class Connection>
asio::awaitable<void> async_set_read_only_kind(Connection* c) {
    if constexpr (requires { c->async_only_read(); }) co_await c->async_only_read();
    else if constexpr (requires { c->only_read(); }) c->only_read();
    else co_await c->async_execute(set_session_read_only);
}

template <class Connection>
void set_read_only_kind(Connection& c) {
    if constexpr (requires { c.only_read(); }) c.only_read();
    else c.execute(set_session_read_only);
}

}  // namespace

server make_server(sqlite::options where, const database_options& how) {
    return make_local<sqlite_kind>(std::move(where), how);
}

server make_server(postgres::options where, const database_options& how, role as) {
    return make_networked<postgres_kind>(std::move(where), how, as, postgres::reset_mode::by_tag,
                                         postgres::server_role::prefer_standby);
}

server make_server(mariadb::options where, const database_options& how, role as) {
    return make_networked<mariadb_kind>(std::move(where), how, as, mariadb::reset_mode::by_tracking,
                                        mariadb::server_role::read_only);
}

server make_server(std::string_view url, const database_options& how, role as) {
    std::string scheme = url::parse(url).scheme;
    if (scheme == "sqlite") return make_server(options_of<sqlite_kind>(url), how);
    if (scheme == "postgresql" || scheme == "postgres")
        return make_server(options_of<postgres_kind>(url), how, as);
    if (scheme == "mariadb" || scheme == "mysql")
        return make_server(options_of<mariadb_kind>(url), how, as);
    throw invalid_url(
        "cenote: the URL of a database must begin with sqlite:, postgresql: or mariadb:");
}

server make_server(const place& where, const database_options& how, role as) {
    return std::visit(
        [&](const auto& is) {
            if constexpr (std::is_same_v<decltype(is), const sqlite::options&>)
                return make_server(is, how);
            else return make_server(is, how, as);
        },
        where.where());
}

std::shared_ptr<const place> place_of(std::string_view url) {
    return std::make_shared<place>(std::string(url));
}
std::shared_ptr<const place> place_of(const sqlite::options& where) {
    return std::make_shared<place>(where);
}
std::shared_ptr<const place> place_of(const postgres::options& where) {
    return std::make_shared<place>(where);
}
std::shared_ptr<const place> place_of(const mariadb::options& where) {
    return std::make_shared<place>(where);
}

dialect server::dialect() const noexcept { return kinds::dialects[connector_.index()]; }

statement_list server::statements_to_begin(const transaction_options& how) const {
    std::string level = clause_for(how.isolation);
    switch (dialect()) {
        // A transaction that will write takes the lock at once: one that has read before could
        // only fail if another connection has written meanwhile.
        case dialect::sqlite: return {how.read_only ? "BEGIN" : "BEGIN IMMEDIATE"};
        case dialect::postgres: return {"BEGIN" + level + (how.read_only ? " READ ONLY" : "")};
        case dialect::mariadb: break;
    }
    statement_list all;
    if (!level.empty()) all.push_back("SET TRANSACTION" + level);  // for the next one only
    all.emplace_back(how.read_only ? "START TRANSACTION READ ONLY" : "START TRANSACTION");
    return all;
}

/// With MariaDB the isolation level is set for the next transaction, and a transaction uses it up.
statement_list server::statements_to_undo_begin(const transaction_options& how) const {
    if (dialect() != dialect::mariadb || how.isolation == isolation::server_default) return {};
    return {"START TRANSACTION", "ROLLBACK"};
}

/// MariaDB reports with each reply whether a transaction is active, but not with an error, and a
/// deadlock ends the transaction.
statement_list server::statements_to_verify() const {
    if (dialect() != dialect::mariadb) return {};
    return {"DO 0"};
}

sql::connection& base_of(any_connection& c) noexcept {
    sql::connection* base = with_kind(c, [](sql::connection& it) { return &it; });
    return *base;
}

std::unique_ptr<listening_detail::receiver> receiver_of(any_connection& c) {
    return with_kind(c, [](auto& it) -> std::unique_ptr<listening_detail::receiver> {
        if constexpr (requires { it.receiver(); }) return it.receiver();
        else throw std::logic_error("cenote: a server that sends no notifications");
    });
}

void set_read_only(any_connection& c) {
    with_kind(c, [](auto& it) { set_read_only_kind(it); });
}

asio::awaitable<void> async_set_read_only(any_connection* c) {
    return with_kind(*c, [](auto& it) { return async_set_read_only_kind(&it); });
}

void refuse_writes(any_connection& c, bool on) noexcept {
    with_kind(c, [on](auto& it) {
        if constexpr (requires { it.only_read(on); }) it.only_read(on);
    });
}

}  // namespace cenote::database_detail

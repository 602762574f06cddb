// Which server a URL names, and what differs between SQLite, PostgreSQL and MariaDB.
#include "database/server.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "cenote/url.hpp"

namespace cenote::database_detail {

namespace {

/// Calls `verb(connector, connection)` with a connection and the connector of its kind.
template <class Connectors, class Verb>
auto with_both(Connectors& connectors, any_connection& c, Verb verb) {
    return std::visit(
        [&](auto& connector) {
            return verb(connector, *std::get_if<decltype(connector.open())>(&c));
        },
        connectors);
}

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

constexpr const char* set_session_read_only = "SET SESSION TRANSACTION READ ONLY";

}  // namespace

server make_server(sqlite::options where, const database_options& how) {
    if (where.statement_cache == 0) where.statement_cache = how.statement_cache;
    // A database in memory is gone with its last connection.
    std::size_t min_size = where.mode == sqlite::open_mode::memory ? 1 : 0;
    return {sqlite::connector(std::move(where)), true, min_size};
}

server make_server(postgres::options where, const database_options& how, role as) {
    using postgres::reset_mode, postgres::server_role;
    if (where.statement_cache == 0) where.statement_cache = how.statement_cache;
    if (how.trust_statements && where.reset == reset_mode::with_next)
        where.reset = reset_mode::by_tag;
    if (where.role_of_server == server_role::any) {
        if (as == role::primary) where.role_of_server = server_role::read_write;
        if (as == role::replica) where.role_of_server = server_role::prefer_standby;
    }
    bool resets_in_full = where.reset != reset_mode::by_tag;
    return {postgres::connector(std::move(where)), resets_in_full};
}

server make_server(mariadb::options where, const database_options& how, role as) {
    using mariadb::reset_mode, mariadb::server_role;
    if (where.statement_cache == 0) where.statement_cache = how.statement_cache;
    if (how.trust_statements && where.reset == reset_mode::with_next)
        where.reset = reset_mode::by_tracking;
    if (where.role_of_server == server_role::any) {
        if (as == role::primary) where.role_of_server = server_role::read_write;
        if (as == role::replica) where.role_of_server = server_role::read_only;
    }
    bool resets_in_full = where.reset != reset_mode::by_tracking;
    return {mariadb::connector(std::move(where)), resets_in_full};
}

server make_server(std::string_view url, const database_options& how, role as) {
    std::string scheme = url::parse(url).scheme;
    if (scheme == "sqlite") return make_server(sqlite::options::from_url(url), how);
    if (scheme == "postgresql" || scheme == "postgres")
        return make_server(postgres::options::from_url(url), how, as);
    if (scheme == "mariadb" || scheme == "mysql")
        return make_server(mariadb::options::from_url(url), how, as);
    throw invalid_url(
        "cenote: the URL of a database must begin with sqlite:, postgresql: or mariadb:");
}

any_connection server::open() {
    return std::visit([](auto& its) -> any_connection { return its.open(); }, connector_);
}

bool server::probe(any_connection& c) {
    return with_both(connector_, c, [](auto& its, auto& one) { return its.probe(one); });
}

void server::reset(any_connection& c) {
    with_both(connector_, c, [](auto& its, auto& one) { its.reset(one); });
}

void server::close(any_connection& c) {
    with_both(connector_, c, [](auto& its, auto& one) { its.close(one); });
}

bool server::before_acquire(any_connection& c) noexcept {
    return with_both(connector_, c, [](auto& its, auto& one) {
        if constexpr (requires { its.before_acquire(one); }) return its.before_acquire(one);
        else return true;
    });
}

verdict server::before_release(any_connection& c) noexcept {
    return with_both(connector_, c, [](auto& its, auto& one) { return its.before_release(one); });
}

void server::forsake(any_connection& c) noexcept {
    with_both(connector_, c, [](auto& its, auto& one) { its.forsake(one); });
}

dialect server::dialect() const noexcept {
    return static_cast<database_detail::dialect>(connector_.index());
}

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
    return std::visit([](auto& one) -> sql::connection& { return one; }, c);
}

void set_read_only(any_connection& c) {
    if (auto* maria = std::get_if<mariadb::connection>(&c)) maria->execute(set_session_read_only);
    else if (auto* postgres = std::get_if<postgres::connection>(&c)) postgres->only_read();
    else refuse_writes(c, true);
}

asio::awaitable<void> async_set_read_only(any_connection* c) {
    if (auto* maria = std::get_if<mariadb::connection>(c)) {
        co_await maria->async_execute(set_session_read_only);
    } else if (auto* postgres = std::get_if<postgres::connection>(c)) {
        co_await postgres->async_only_read();
    } else {
        refuse_writes(*c, true);
    }
}

void refuse_writes(any_connection& c, bool on) noexcept {
    if (auto* lite = std::get_if<sqlite::connection>(&c)) lite->only_read(on);
}

}  // namespace cenote::database_detail

// Which server a URL names, and what differs between SQLite, PostgreSQL and MariaDB.
#include "database/server.hpp"

#include <algorithm>
#include <string>
#include <utility>

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

/// `if_trusted`: how sessions are reset if statements are trusted. `of_replica`: the role that a
/// replica must have.
template <class Connector, class Options, class Reset, class Role>
server make_networked(Options where, const database_options& how, role as, Reset if_trusted,
                      Role of_replica) {
    if (where.statement_cache == 0) where.statement_cache = how.statement_cache;
    if (how.trust_statements && where.reset == Reset::with_next) where.reset = if_trusted;
    if (where.role_of_server == Role::any) {
        if (as == role::primary) where.role_of_server = Role::read_write;
        if (as == role::replica) where.role_of_server = of_replica;
    }
    bool resets_in_full = where.reset != if_trusted;
    return {Connector(std::move(where)), resets_in_full};
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
    return make_networked<postgres::connector>(std::move(where), how, as,
                                               postgres::reset_mode::by_tag,
                                               postgres::server_role::prefer_standby);
}

server make_server(mariadb::options where, const database_options& how, role as) {
    return make_networked<mariadb::connector>(std::move(where), how, as,
                                              mariadb::reset_mode::by_tracking,
                                              mariadb::server_role::read_only);
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
    if (auto* lite = std::get_if<sqlite::connection>(&c)) return *lite;
    if (auto* postgres = std::get_if<postgres::connection>(&c)) return *postgres;
    return *std::get_if<mariadb::connection>(&c);
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

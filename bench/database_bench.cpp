// The cost of a statement through a database, compared with a prepared statement on a connection.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>

#include "cenote/database.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/postgres.hpp"
#include "cenote/sqlite.hpp"
#include "stopwatch.hpp"
#include "support/real_server.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

constexpr std::int64_t rows = 10'000;
constexpr const char* by_number = "SELECT balance FROM account WHERE id = $1";
constexpr const char* by_mark = "SELECT balance FROM account WHERE id = ?";

void fill(database& db) {
    db.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL)");
    db.transaction([](transaction& t) {
        for (std::int64_t i = 1; i <= rows; ++i)
            t.execute("INSERT INTO account VALUES ($1, $2)", i, i * 7);
    });
}

/// Runs `query(id)` on this thread again and again.
template <class Query>
measured one_by_one(double seconds, Query query) {
    std::uint64_t count = 0;
    stopwatch watch;
    do {
        std::int64_t id = 1 + static_cast<std::int64_t>(count * 7919 % rows);
        sql::result balance = query(id);
        if (balance.scalar<std::int64_t>() != id * 7) throw std::runtime_error("wrong result");
        ++count;
    } while (watch.seconds() < seconds);
    double each = watch.seconds() * 1e6 / static_cast<double>(count);
    return {.metrics = {{"statement", each, "µs"}}, .cores = watch.cores()};
}

template <class Connector>
subject by_hand(const std::string& url, const std::string& text) {
    struct own {
        explicit own(const std::string& where, const std::string& sql)
            : connection(Connector{where}.open()), statement(connection.prepare(sql)) {}
        decltype(std::declval<Connector>().open()) connection;
        sql::statement statement;
    };
    auto mine = std::make_shared<own>(url, text);
    return {"by hand, prepared", [=](double seconds) {
                return one_by_one(seconds, [&](std::int64_t id) {
                    return mine->connection.execute(mine->statement, id);
                });
            }};
}

subject through(std::string name, const std::string& url, const char* text,
                const database_options& how = {}) {
    auto db = std::make_shared<database>(url, how);
    return {std::move(name), [=](double seconds) {
                return one_by_one(seconds, [&](std::int64_t id) { return db->query(text, id); });
            }};
}

subject through_scope(const std::string& url, const char* text) {
    auto db = std::make_shared<database>(url);
    return {"scope", [=](double seconds) {
                scope all = db->scope();
                return one_by_one(seconds, [&](std::int64_t id) { return all.query(text, id); });
            }};
}

/// `native` has the server's own placeholders, `other` must be translated.
template <class Connector>
workload statements(const std::string& url, const char* native, const char* other) {
    database db{url};
    fill(db);
    return {.about = "a row by its key, one statement after the other",
            .seconds = 0.5,
            .subjects = {by_hand<Connector>(url, native), through("database", url, native),
                         through("nothing kept", url, native, {.statement_cache = 0}),
                         through("trusting", url, native, {.trust_statements = true}),
                         through("trusting, translated", url, other, {.trust_statements = true}),
                         through("trusting, nothing kept", url, native,
                                 {.statement_cache = 0, .trust_statements = true}),
                         through_scope(url, native)},
            .goals = {{"trusting / by hand, prepared", goal::bound::at_most, 1.05,
                       ratio("trusting", "by hand, prepared", "statement")}}};
}

/// Pins client and server to one processor. Otherwise it depends on chance whether each request
/// wakes another processor, which takes five times as long as the reply.
class one_processor {
public:
    one_processor() {
        sched_getaffinity(0, sizeof before_, &before_);
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    ~one_processor() { sched_setaffinity(0, sizeof before_, &before_); }
    one_processor(const one_processor&) = delete;
    one_processor& operator=(const one_processor&) = delete;

private:
    cpu_set_t before_{};
};

/// A temporary file in memory.
struct sqlite_file {
    std::filesystem::path path =
        std::filesystem::path("/dev/shm") / ("cenote-bench-" + std::to_string(::getpid()));
    ~sqlite_file() {
        std::error_code ignored;
        for (const char* more : {"", "-wal", "-shm"})
            std::filesystem::remove(path.string() + more, ignored);
    }
};

}  // namespace

void run_databases(report& into) {
    one_processor shared;
    sqlite_file file;
    into.run("database-sqlite", [&] {
        return statements<sqlite::connector>("sqlite:" + file.path.string(), by_mark, by_number);
    });
    std::optional<support::postgres_server> postgres;
    into.run("database-postgres", [&] {
        postgres.emplace();
        workload w = statements<postgres::connector>(
            support::app_url("postgresql", postgres->port()), by_number, by_mark);
        w.goals.push_back({"trusting: nothing kept / kept", goal::bound::at_least, 1.5,
                           ratio("trusting, nothing kept", "trusting", "statement")});
        return w;
    });
    postgres.reset();
    std::optional<support::mariadb_server> mariadb;
    into.run("database-mariadb", [&] {
        mariadb.emplace();
        return statements<mariadb::connector>(support::app_url("mariadb", mariadb->port()), by_mark,
                                              by_number);
    });
}

}  // namespace cenote::bench

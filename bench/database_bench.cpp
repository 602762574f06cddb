// What a statement costs through a database: against the same one, prepared, on a connection that
// is held by hand.
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

/// One after the other, on this thread: `ask(id)` gives the answer.
template <class Ask>
measured one_by_one(double seconds, Ask ask) {
    std::uint64_t count = 0;
    stopwatch watch;
    do {
        std::int64_t id = 1 + static_cast<std::int64_t>(count * 7919 % rows);
        sql::result answer = ask(id);
        if (answer.scalar<std::int64_t>() != id * 7) throw std::runtime_error("a wrong answer");
        ++count;
    } while (watch.seconds() < seconds);
    double each = watch.seconds() * 1e6 / static_cast<double>(count);
    return {.metrics = {{"statement", each, "us"}}, .cores = watch.cores()};
}

template <class Connector>
subject by_hand(const std::string& url, const std::string& text) {
    struct own {
        explicit own(const std::string& where, const std::string& asked)
            : connection(Connector{where}.open()), statement(connection.prepare(asked)) {}
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

/// `native`: as the server itself writes it, and `other` as it has to be translated.
template <class Connector>
workload statements(const std::string& url, const char* native, const char* other) {
    database made{url};
    fill(made);
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

std::string at(const char* scheme, std::uint16_t port) {
    return std::string(scheme) + "://app:" + support::canary_password +
           "@127.0.0.1:" + std::to_string(port) + "/orders";
}

/// Who asks and who answers share a processor: then it is not left to chance whether each question
/// wakes another one up, which takes five times as long as the answer.
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

/// A file in memory that is gone with the run.
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
        workload w =
            statements<postgres::connector>(at("postgresql", postgres->port()), by_number, by_mark);
        w.goals.push_back({"trusting: nothing kept / kept", goal::bound::at_least, 1.5,
                           ratio("trusting, nothing kept", "trusting", "statement")});
        return w;
    });
    postgres.reset();
    std::optional<support::mariadb_server> mariadb;
    into.run("database-mariadb", [&] {
        mariadb.emplace();
        return statements<mariadb::connector>(at("mariadb", mariadb->port()), by_mark, by_number);
    });
}

}  // namespace cenote::bench

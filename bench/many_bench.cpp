// Many rows at once: compared with one statement after the other, and with the client libraries'
// own ways to send many rows.
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <libpq-fe.h>
#include <memory>
#include <mysql.h>
#include <optional>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include "stopwatch.hpp"
#include "support/real_server.hpp"
#include "workloads.hpp"
#include <cenote/database.hpp>
#include <cenote/mariadb.hpp>
#include <cenote/postgres.hpp>
#include <cenote/sqlite.hpp>

namespace cenote::bench {

namespace {

constexpr int rows = 10'000;
constexpr int copied = 1'000'000;
constexpr const char* table =
    "CREATE TABLE many (id INTEGER PRIMARY KEY, name VARCHAR(100), n BIGINT)";
constexpr const char* by_mark = "INSERT INTO many (id, name, n) VALUES (?, ?, ?)";
constexpr const char* by_number = "INSERT INTO many (id, name, n) VALUES ($1, $2, $3)";

using row = std::tuple<int, std::string, std::int64_t>;

const std::vector<row>& all_rows() {
    static const std::vector<row> all = [] {
        std::vector<row> made;
        for (int i = 0; i < rows; ++i) made.emplace_back(i, "name " + std::to_string(i), 7 * i);
        return made;
    }();
    return all;
}

/// Runs `work` until the time is over; `prepare` before each run does not count.
measured timed(double seconds, const char* metric, const std::function<void()>& prepare,
               const std::function<void()>& work) {
    double spent = 0;
    int runs = 0;
    do {
        prepare();
        stopwatch watch;
        work();
        spent += watch.seconds();
        ++runs;
    } while (spent < seconds);
    return {.metrics = {{metric, spent * 1e3 / runs, "ms"}}};
}

/// Empties the table with `empty` and inserts all rows in one transaction, again and again.
subject inserting(std::string name, const std::shared_ptr<database>& db, const char* empty,
                  std::function<void()> insert) {
    return {std::move(name), [=](double seconds) {
                return timed(seconds, "10^4 rows", [&] { db->execute(empty); }, insert);
            }};
}

/// Servers delete row by row, and clean up behind that during the next runs.
const char* to_empty(const std::string& url) {
    return url.starts_with("sqlite:") ? "DELETE FROM many" : "TRUNCATE TABLE many";
}

workload many_rows(const std::string& url, std::function<void()> by_driver) {
    auto db = std::make_shared<database>(url);
    db->execute("DROP TABLE IF EXISTS many");
    db->execute(table);
    auto one_by_one = [db] {
        transaction t = db->begin();
        for (const auto& [id, name, n] : all_rows()) t.execute(by_mark, id, name, n);
        t.commit();
    };
    auto together = [db] { db->execute_many(by_mark, all_rows()); };
    const char* empty = to_empty(url);
    return {.about = "10^4 rows inserted in one transaction",
            .seconds = 2,
            .subjects = {inserting("one by one", db, empty, one_by_one),
                         inserting("execute_many", db, empty, together),
                         inserting("driver", db, empty, std::move(by_driver))},
            .goals = {{"one by one / execute_many", goal::bound::at_least, 5,
                       ratio("one by one", "execute_many", "10^4 rows")},
                      {"execute_many / driver", goal::bound::at_most, 1.2,
                       ratio("execute_many", "driver", "10^4 rows")}}};
}

// The drivers by hand.

struct libpq {
    explicit libpq(const std::string& url) : it(PQconnectdb(url.c_str()), &PQfinish) {
        if (PQstatus(it.get()) != CONNECTION_OK) throw std::runtime_error("connection failed");
    }

    /// Reads the replies in the middle, so that neither side waits for the other one.
    void insert() const {
        PGconn* c = it.get();
        PQenterPipelineMode(c);
        PQsendPrepare(c, "", by_number, 3, nullptr);
        int unread = 1;
        auto read = [&] {
            for (; unread > 0; --unread) {
                PGresult* r = PQgetResult(c);
                if (PQresultStatus(r) != PGRES_COMMAND_OK) throw std::runtime_error("not inserted");
                PQclear(r);
                PQclear(PQgetResult(c));
            }
        };
        for (const auto& [id, name, n] : all_rows()) {
            std::string first = std::to_string(id);
            std::string last = std::to_string(n);
            std::array<const char*, 3> values{first.c_str(), name.c_str(), last.c_str()};
            PQsendQueryPrepared(c, "", 3, values.data(), nullptr, nullptr, 0);
            if (++unread < 1000) continue;
            PQsendFlushRequest(c);
            read();
        }
        PQpipelineSync(c);
        read();
        PQclear(PQgetResult(c));
        PQexitPipelineMode(c);
    }

    std::unique_ptr<PGconn, void (*)(PGconn*)> it;
};

struct libmariadb {
    explicit libmariadb(std::uint16_t port) : it(mysql_init(nullptr), &mysql_close) {
        if (mysql_real_connect(it.get(), "127.0.0.1", "app", support::canary_password, "orders",
                               port, nullptr, 0) == nullptr)
            throw std::runtime_error("connection failed");
    }

    void insert() const {
        must(mysql_query(it.get(), "START TRANSACTION") == 0);
        MYSQL_STMT* s = mysql_stmt_init(it.get());
        must(mysql_stmt_prepare(s, by_mark, std::char_traits<char>::length(by_mark)) == 0);
        std::vector<int> ids;
        std::vector<char*> names;
        std::vector<unsigned long> lengths;
        std::vector<std::int64_t> numbers;
        for (const auto& [id, name, n] : all_rows()) {
            ids.push_back(id);
            names.push_back(const_cast<char*>(name.data()));
            lengths.push_back(name.size());
            numbers.push_back(n);
        }
        std::array<MYSQL_BIND, 3> columns{};
        columns[0].buffer_type = MYSQL_TYPE_LONG;
        columns[0].buffer = ids.data();
        columns[1].buffer_type = MYSQL_TYPE_STRING;
        columns[1].buffer = names.data();
        columns[1].length = lengths.data();
        columns[2].buffer_type = MYSQL_TYPE_LONGLONG;
        columns[2].buffer = numbers.data();
        unsigned count = rows;
        mysql_stmt_attr_set(s, STMT_ATTR_ARRAY_SIZE, &count);
        must(mysql_stmt_bind_param(s, columns.data()) == 0);
        must(mysql_stmt_execute(s) == 0);
        mysql_stmt_close(s);
        must(mysql_query(it.get(), "COMMIT") == 0);
    }
    void must(bool success) const {
        if (!success) throw std::runtime_error(mysql_error(it.get()));
    }

    std::unique_ptr<MYSQL, void (*)(MYSQL*)> it;
};

struct libsqlite {
    explicit libsqlite(const std::string& path) {
        sqlite3* opened = nullptr;
        sqlite3_open(path.c_str(), &opened);
        it.reset(opened);
        sqlite3_busy_timeout(opened, 5000);
    }

    void insert() const {
        sqlite3_exec(it.get(), "BEGIN", nullptr, nullptr, nullptr);
        sqlite3_stmt* s = nullptr;
        sqlite3_prepare_v2(it.get(), by_mark, -1, &s, nullptr);
        for (const auto& [id, name, n] : all_rows()) {
            sqlite3_bind_int(s, 1, id);
            sqlite3_bind_text(s, 2, name.data(), static_cast<int>(name.size()), nullptr);
            sqlite3_bind_int64(s, 3, n);
            if (sqlite3_step(s) != SQLITE_DONE) throw std::runtime_error(sqlite3_errmsg(it.get()));
            sqlite3_reset(s);
        }
        sqlite3_finalize(s);
        sqlite3_exec(it.get(), "COMMIT", nullptr, nullptr, nullptr);
    }

    std::unique_ptr<sqlite3, int (*)(sqlite3*)> it{nullptr, &sqlite3_close};
};

// COPY.

/// A folder in memory for files of SQLite and of \copy.
struct memory_folder {
    std::filesystem::path path =
        std::filesystem::path("/dev/shm") / ("cenote-bench-many-" + std::to_string(::getpid()));
    memory_folder() { std::filesystem::create_directory(path); }
    ~memory_folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    memory_folder(const memory_folder&) = delete;
    memory_folder& operator=(const memory_folder&) = delete;
};

void run_psql(const std::string& url, const std::string& command) {
    std::string all = "psql -qX '" + url + "' -c \"" + command + "\"";
    if (std::system(all.c_str()) != 0) throw std::runtime_error("psql failed");
}

workload copies(const std::string& url, const std::filesystem::path& file) {
    auto db = std::make_shared<database>(url);
    db->execute("DROP TABLE IF EXISTS many");
    db->execute("CREATE UNLOGGED TABLE many (id INTEGER, name VARCHAR(100), n BIGINT)");
    {
        std::ofstream out(file);
        for (int i = 0; i < copied; ++i) out << i << "\tname " << i << '\t' << 7 * i << '\n';
    }
    const std::string name = file.string();
    auto empty = [db] { db->execute("TRUNCATE many"); };
    auto nothing = [] {};
    auto in = [db, name] {
        sql::copy_in to = db->copy_in("COPY many FROM STDIN");
        std::ifstream from(name);
        std::vector<char> block(65536);
        while (from.read(block.data(), 65536) || from.gcount() > 0)
            to.write({block.data(), static_cast<std::size_t>(from.gcount())});
        if (to.finish() != copied) throw std::runtime_error("rows are missing");
    };
    auto out = [db, name] {
        sql::copy_out from = db->copy_out("COPY many TO STDOUT");
        std::ofstream to(name + ".out");
        while (auto some = from.next()) to.write(some->data(), static_cast<long>(some->size()));
    };
    auto psql_in = [=] { run_psql(url, "\\copy many FROM '" + name + "'"); };
    auto psql_out = [=] { run_psql(url, "\\copy many TO '" + name + ".out'"); };
    auto subject_of = [](std::string what, const char* metric, std::function<void()> prepare,
                         std::function<void()> work) -> subject {
        return {std::move(what),
                [=](double seconds) { return timed(seconds, metric, prepare, work); }};
    };
    return {.about = "10^6 rows between a file and a table",
            .seconds = 0.5,
            .subjects = {subject_of("copy_in", "10^6 rows", empty, in),
                         subject_of("\\copy in", "10^6 rows", empty, psql_in),
                         subject_of("copy_out", "10^6 rows", nothing, out),
                         subject_of("\\copy out", "10^6 rows", nothing, psql_out)},
            .goals = {{"copy_in / \\copy", goal::bound::at_most, 1.1,
                       ratio("copy_in", "\\copy in", "10^6 rows")},
                      {"copy_out / \\copy", goal::bound::at_most, 1.1,
                       ratio("copy_out", "\\copy out", "10^6 rows")}}};
}

}  // namespace

void run_many(report& into) {
    memory_folder files;
    std::optional<support::postgres_server> postgres;
    auto postgres_url = [&] {
        if (!postgres) postgres.emplace();
        return support::app_url("postgresql", postgres->port());
    };
    into.run("many-postgres", [&] {
        auto driver = std::make_shared<libpq>(postgres_url());
        return many_rows(postgres_url(), [driver] { driver->insert(); });
    });
    into.run("copy-postgres", [&] { return copies(postgres_url(), files.path / "rows"); });
    postgres.reset();
    std::optional<support::mariadb_server> mariadb;
    into.run("many-mariadb", [&] {
        mariadb.emplace();
        auto driver = std::make_shared<libmariadb>(mariadb->port());
        return many_rows(support::app_url("mariadb", mariadb->port()),
                         [driver] { driver->insert(); });
    });
    mariadb.reset();
    into.run("many-sqlite", [&] {
        const std::string path = files.path / "many.db";
        workload w = many_rows("sqlite:" + path, [path] {});
        auto driver = std::make_shared<libsqlite>(path);
        auto db = std::make_shared<database>("sqlite:" + path);
        w.subjects.back() =
            inserting("driver", db, to_empty("sqlite:" + path), [driver] { driver->insert(); });
        w.goals.erase(w.goals.begin());  // no round trips to save
        return w;
    });
}

}  // namespace cenote::bench

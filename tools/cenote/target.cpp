// SQL servers as targets: the order book, its statements, and connection limits.
#include "target.hpp"

#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <thread>
#include <utility>

#include "command.hpp"
#include "temporary_folder.hpp"
#include <cenote/asio.hpp>
#include <cenote/pool.hpp>
#include <cenote/sqlite.hpp>
#include <cenote/url.hpp>
#ifdef CENOTE_HAS_POSTGRES
#include <cenote/postgres.hpp>
#endif
#ifdef CENOTE_HAS_MARIADB
#include <cenote/mariadb.hpp>
#endif

namespace load {

namespace asio = boost::asio;
using std::chrono::steady_clock;

namespace {

struct statements {
    std::string table;  // empty: `read` is the user's statement
    std::string read;
    std::string write;
};

/// Makes the table's name unique, also among concurrent runs from other machines.
std::string random_letters() {
    std::random_device random;
    std::string letters;
    for (int i = 0; i < 16; ++i) letters += "abcdefghijklmnop"[random() % 16];
    return letters;
}

/// Reads one side of an order book, and changes orders in it.
statements order_book(bool numbered) {
    statements s;
    s.table = "cenote_bench_" + random_letters();
    s.read = "SELECT price, sum(quantity) FROM " + s.table +
             " WHERE buys = " + (numbered ? "$1" : "?") + " GROUP BY price ORDER BY price";
    s.write =
        "UPDATE " + s.table + " SET quantity = quantity + 1 WHERE id = " + (numbered ? "$1" : "?");
    return s;
}

constexpr std::int64_t orders = 2000;

void create_table(cenote::sql::connection& c, const statements& s) {
    c.execute("CREATE TABLE " + s.table +
              "(id INTEGER PRIMARY KEY, buys INTEGER NOT NULL, price INTEGER NOT NULL, "
              "quantity INTEGER NOT NULL)");
    for (std::int64_t id = 0; id < orders;) {
        std::string insert = "INSERT INTO " + s.table + " VALUES ";
        for (int i = 0; i < 500; ++i, ++id)
            insert += (i == 0 ? "(" : ",(") + std::to_string(id) + "," + std::to_string(id % 2) +
                      "," + std::to_string(1000 + id * 7 % 50) + ",100)";
        c.execute(insert);
    }
    c.execute("CREATE INDEX " + s.table + "_best ON " + s.table + "(buys, price)");
}

void execute(cenote::sql::connection& c, const statements& s, const operation& what) {
    if (s.table.empty()) c.execute(s.read);
    else if (what.writes) c.execute(s.write, what.key % orders);
    else c.execute(s.read, what.key % 2);
}

/// Sleeps in slices, to notice a stop.
void sleep_for(std::chrono::nanoseconds hold, const std::stop_token& stop) {
    using namespace std::chrono_literals;
    auto until = steady_clock::now() + hold;
    for (auto now = steady_clock::now(); now < until && !stop.stop_requested();
         now = steady_clock::now())
        std::this_thread::sleep_until(std::min(until, now + 50ms));
}

template <class Connection>
class sql_pool : public target_pool {
public:
    template <class Connector>
    sql_pool(const Connector& connector, const cenote::options& settings, const statements& s)
        : statements_(s), pool_(connector, settings) {}

    std::error_code run(const operation& what, std::stop_token stop, timestamps& when) override {
        std::error_code refused;
        cenote::lease<Connection> lease = pool_.acquire({.stop = stop}, refused);
        when.granted = steady_clock::now();
        if (refused) return refused;
        try {
            execute(*lease, statements_, what);
        } catch (...) {
            lease.discard();
            throw;
        }
        when.done = steady_clock::now();
        sleep_for(what.hold, stop);
        lease.give_back();
        when.released = steady_clock::now();
        return {};
    }

    asio::awaitable<std::error_code> async_run(operation what, timestamps* when) override {
        try {
            cenote::lease<Connection> lease = co_await pool_.async_acquire(asio::use_awaitable);
            when->granted = steady_clock::now();
            co_await async_use(&lease, what, when);
            lease.give_back();
            when->released = steady_clock::now();
        } catch (const cenote::pool_error& refused) {
            co_return refused.code();
        }
        co_return std::error_code();
    }

    cenote::stats stats() const override { return pool_.stats(); }

private:
    asio::awaitable<void> async_use(cenote::lease<Connection>* lease, operation what,
                                    timestamps* when) {
        try {
            cenote::sql::result rows = co_await async_execute(**lease, what);
            static_cast<void>(rows);
        } catch (...) {
            lease->discard();
            throw;
        }
        when->done = steady_clock::now();
        if (what.hold > what.hold.zero()) {
            asio::steady_timer timer(co_await asio::this_coro::executor, what.hold);
            co_await timer.async_wait(asio::use_awaitable);
        }
    }

    /// Not a coroutine itself.
    asio::awaitable<cenote::sql::result> async_execute(cenote::sql::connection& c,
                                                       const operation& what) {
        if (statements_.table.empty()) return c.async_execute(statements_.read);
        if (what.writes) return c.async_execute(statements_.write, what.key % orders);
        return c.async_execute(statements_.read, what.key % 2);
    }

    const statements& statements_;
    cenote::pool<Connection> pool_;
};

template <class Connection, class Connector>
class sql_target : public target {
public:
    using limit_reader = std::optional<server_limit> (*)(cenote::sql::connection&);

    /// `leftover`: what remains if the program is killed; by default the table.
    sql_target(std::string name, const Connector& connector, statements s, limit_reader read_limit,
               std::string leftover = {})
        : target(std::move(name), !s.table.empty()),
          connector_(connector),
          statements_(std::move(s)),
          read_limit_(read_limit) {
        if (statements_.table.empty()) return;
        if (leftover.empty()) leftover = "the table " + statements_.table;
        bool begun = false;
        try {
            with_connection([&](Connection& c) {
                begun = true;
                notice_.emplace(leftover + " may be left behind");
                create_table(c, statements_);
            });
        } catch (...) {
            // The destructor does not run when the constructor throws.
            if (begun) drop("DROP TABLE IF EXISTS ");
            throw;
        }
    }
    ~sql_target() override {
        if (!statements_.table.empty()) drop("DROP TABLE ");
    }

    std::unique_ptr<target_pool> open(const cenote::options& settings) override {
        return std::make_unique<sql_pool<Connection>>(connector_, settings, statements_);
    }
    std::optional<server_limit> limit() override {
        return with_connection([&](Connection& c) { return read_limit_(c); });
    }

private:
    /// On a new connection: an earlier one may be broken.
    void drop(const char* statement) {
        try {
            with_connection([&](Connection& c) { c.execute(statement + statements_.table); });
        } catch (const std::exception& e) {
            std::fprintf(
                stderr,
                "cenote: the table %s is left behind, because it could not be dropped: %s\n",
                statements_.table.c_str(),
                command::without_prefix(terminal::printable(e.what())).c_str());
        }
    }

    template <class F>
    auto with_connection(F use) {
        struct closing {
            Connector& connector;
            Connection connection;
            ~closing() { connector.close(connection); }
        };
        closing one{connector_, connector_.open()};
        return use(one.connection);
    }

    Connector connector_;
    statements statements_;
    limit_reader read_limit_;
    std::optional<terminal::exit_notice> notice_;
};

std::optional<server_limit> no_limit(cenote::sql::connection&) { return std::nullopt; }

#ifdef CENOTE_HAS_POSTGRES
std::optional<server_limit> postgres_limit(cenote::sql::connection& c) {
    auto row = c.execute(
        "SELECT current_setting('max_connections')::int8, "
        "current_setting('superuser_reserved_connections')::int8 + "
        "coalesce(nullif(current_setting('reserved_connections', true), '')::int8, 0), "
        "(SELECT rolconnlimit::int8 FROM pg_roles WHERE rolname = current_user), "
        "(SELECT datconnlimit::int8 FROM pg_database WHERE datname = current_database()), "
        // Counts all backends, also those that pg_stat_activity hides; without this one.
        "(SELECT coalesce(sum(numbackends), 1)::int8 - 1 FROM pg_stat_database)");
    auto most = row[0].get<std::int64_t>(0), reserved = row[0].get<std::int64_t>(1);
    auto of_role = row[0].get<std::int64_t>(2), of_database = row[0].get<std::int64_t>(3);
    auto limit = std::max<std::int64_t>(most - reserved, 0);
    std::string setting = "max_connections " + std::to_string(most) + " less " +
                          std::to_string(reserved) + " reserved";
    if (of_role >= 0 && of_role < limit) {
        limit = of_role;
        setting = "the user's connection limit";
    }
    if (of_database >= 0 && of_database < limit) {
        limit = of_database;
        setting = "the database's connection limit";
    }
    auto others = std::max<std::int64_t>(row[0].get<std::int64_t>(4), 0);
    return server_limit{static_cast<std::size_t>(limit), static_cast<std::size_t>(others), setting};
}
#endif

#ifdef CENOTE_HAS_MARIADB
std::optional<server_limit> mariadb_limit(cenote::sql::connection& c) {
    auto row = c.execute(
        "SELECT CAST(@@max_connections AS SIGNED), CAST(@@max_user_connections AS SIGNED)");
    auto limit = row[0].get<std::int64_t>(0), of_user = row[0].get<std::int64_t>(1);
    auto status = c.execute("SHOW GLOBAL STATUS LIKE 'Threads_connected'");
    std::size_t connected = std::strtoul(status[0].get<std::string>(1).c_str(), nullptr, 10);
    std::size_t others = connected - std::min<std::size_t>(connected, 1);
    if (of_user > 0 && of_user < limit)
        return server_limit{static_cast<std::size_t>(of_user), others, "max_user_connections"};
    return server_limit{static_cast<std::size_t>(limit), others, "max_connections"};
}
#endif

using sqlite_target = sql_target<cenote::sqlite::connection, cenote::sqlite::connector>;

class embedded_target : private command::temporary_folder, public sqlite_target {
public:
    explicit embedded_target(statements s)
        : sqlite_target("a temporary SQLite file",
                        cenote::sqlite::connector{"sqlite:" + (path() / "bench.db").string() +
                                                  "?synchronous=off&statement_cache=16"},
                        std::move(s), no_limit, "the folder " + path().string()) {}
};

/// Neither creates the user's file nor changes its journal mode, unless the URL asks for another
/// one.
cenote::sqlite::connector users_file(const std::string& url, const cenote::url& parsed) {
    cenote::sqlite::options o = cenote::sqlite::options::from_url(url);
    bool sets_journal = std::any_of(parsed.parameters.begin(), parsed.parameters.end(),
                                    [](const auto& one) { return one.first == "journal_mode"; });
    if (!sets_journal) o.journal_mode.clear();
    if (o.mode == cenote::sqlite::open_mode::create) o.mode = cenote::sqlite::open_mode::read_write;
    if (o.mode != cenote::sqlite::open_mode::memory && !std::filesystem::exists(o.path))
        throw command::failure("there is no file " + o.path,
                               "Without a URL, a temporary file is used.");
    return cenote::sqlite::connector{o};
}

}  // namespace

std::unique_ptr<target> find_target(const std::string& url, const std::string& statement) {
    auto chosen = [&](bool numbered) {
        return statement.empty() ? order_book(numbered) : statements{{}, statement, {}};
    };
    if (url.empty()) return std::make_unique<embedded_target>(chosen(false));
    cenote::url parsed = cenote::url::parse(url);
    const std::string& scheme = parsed.scheme;
    std::string name = parsed.redacted();
    if (scheme == "sqlite")
        return std::make_unique<sqlite_target>(name, users_file(url, parsed), chosen(false),
                                               no_limit);
#ifdef CENOTE_HAS_POSTGRES
    if (scheme == "postgresql" || scheme == "postgres")
        return std::make_unique<
            sql_target<cenote::postgres::connection, cenote::postgres::connector>>(
            name, cenote::postgres::connector{url}, chosen(true), postgres_limit);
#endif
#ifdef CENOTE_HAS_MARIADB
    if (scheme == "mariadb" || scheme == "mysql")
        return std::make_unique<
            sql_target<cenote::mariadb::connection, cenote::mariadb::connector>>(
            name, cenote::mariadb::connector{url}, chosen(false), mariadb_limit);
#endif
    throw command::wrong_arguments("unsupported URL scheme '" + scheme + ":'",
                                   "Supported here: postgresql, mariadb, sqlite.");
}

}  // namespace load

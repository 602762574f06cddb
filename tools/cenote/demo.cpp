// The demo: coroutines, a line that shows what happens, Ctrl-C, and a table at the end.
#include "demo.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>

#include "order_book.hpp"
#include <cenote/asio.hpp>
#include <cenote/pool.hpp>
#ifdef CENOTE_HAS_POSTGRES
#include <cenote/postgres.hpp>
#endif
#ifdef CENOTE_HAS_MARIADB
#include <cenote/mariadb.hpp>
#endif
#include <cenote/sqlite.hpp>
#include <cenote/url.hpp>

namespace demo {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

/// What the coroutines did, counted while they do it.
class ledger {
public:
    void note(steady_clock::duration took, bool traded) {
        ++buckets_[cenote::histogram::bucket_of(took)];
        ++(traded ? trades_ : looks_);
    }
    void note(const tally& t) {
        joined_ += t.joined;
        taken_ += t.taken;
    }
    void note_failure(const char* why) {
        if (failures_++ == 0) first_failure_ = why;
    }

    std::uint64_t operations() const { return trades_ + looks_; }
    std::uint64_t trades() const { return trades_; }
    std::uint64_t looks() const { return looks_; }
    std::uint64_t failures() const { return failures_; }
    const std::string& first_failure() const { return first_failure_; }
    /// What must lie in the book.
    std::int64_t left() const { return joined_ - taken_; }
    cenote::histogram times() const {
        cenote::histogram all;
        for (std::size_t i = 0; i < all.buckets.size(); ++i) all.buckets[i] = buckets_[i];
        return all;
    }

private:
    std::array<std::atomic<std::uint64_t>, cenote::histogram::bucket_count> buckets_{};
    std::atomic<std::uint64_t> trades_{0}, looks_{0}, failures_{0};
    std::atomic<std::int64_t> joined_{0}, taken_{0};
    std::string first_failure_;
};

double milliseconds(std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
}

/// A folder that goes when the demo ends.
class temporary_folder {
public:
    temporary_folder() {
        std::string name = std::filesystem::temp_directory_path() / "cenote-demo-XXXXXX";
        if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    ~temporary_folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;

    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

template <class Connection>
class show {
public:
    template <class Connector>
    show(const settings& how, Connector connector, dialect d)
        : how_(how),
          book_(d),
          pool_(std::move(connector),
                {.name = "demo", .max = how.connections, .acquire_timeout = 10s}) {}

    int run() {
        pool_.with([&](Connection& c) { book_.set_up(c); });
        asio::io_context io;
        asio::signal_set signals(io, SIGINT, SIGTERM);
        signals.async_wait([&](const boost::system::error_code& gone, int) {
            if (!gone) over_ = true;
        });
        begun_ = steady_clock::now();
        for (std::size_t i = 0; i < how_.coroutines; ++i)
            asio::co_spawn(io, customer(static_cast<std::uint32_t>(i)), [&](std::exception_ptr) {
                if (++ended_ == how_.coroutines) signals.cancel();
            });
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < how_.threads; ++i) threads.emplace_back([&] { io.run(); });
        watch();
        for (std::thread& t : threads) t.join();
        return conclude();
    }

private:
    asio::awaitable<void> customer(std::uint32_t number) {
        std::minstd_rand random(number + 1);
        while (!over_) {
            auto begun = steady_clock::now();
            bool trades = random() % 5 == 0;
            try {
                cenote::lease<Connection> lease = co_await pool_.async_acquire(asio::use_awaitable);
                if (trades) co_await trade(*lease, random);
                else co_await book_.look(*lease);
                ledger_.note(steady_clock::now() - begun, trades);
            } catch (const std::exception& e) {
                ledger_.note_failure(e.what());
                over_ = true;
            }
        }
    }

    asio::awaitable<void> trade(Connection& c, std::minstd_rand& random) {
        bool buys = random() % 2 == 0;
        int price = 1000 + static_cast<int>(random() % 50) - (buys ? 20 : 10);
        int quantity = 1 + static_cast<int>(random() % 100);
        tally t = co_await book_.trade(c, buys, price, quantity);
        ledger_.note(t);
    }

    void watch() {
        auto end = begun_ + std::chrono::duration_cast<steady_clock::duration>(
                                std::chrono::duration<double>(how_.seconds));
        bool live = !how_.plain && ::isatty(STDOUT_FILENO) == 1;
        auto every = live ? 250ms : 1000ms;
        std::uint64_t before = 0;
        for (auto next = begun_ + every; !over_; next += every) {
            while (!over_ && steady_clock::now() < std::min(next, end))
                std::this_thread::sleep_for(20ms);
            if (steady_clock::now() >= end) over_ = true;
            line(live, every, before);
        }
        if (live) std::printf("\n");
    }

    void line(bool live, steady_clock::duration every, std::uint64_t& before) {
        cenote::stats now = pool_.stats();
        std::uint64_t done = ledger_.operations();
        double rate =
            static_cast<double>(done - before) / std::chrono::duration<double>(every).count();
        before = done;
        std::printf("%s%4.1f s  leased %2" PRIu64 "  idle %2" PRIu64 "  waiting %3" PRIu64
                    "  %7.0f operations/s  p99 %6.1f ms%s",
                    live ? "\r" : "",
                    std::chrono::duration<double>(steady_clock::now() - begun_).count(), now.leased,
                    now.idle, now.waiting, rate, milliseconds(ledger_.times().quantile(0.99)),
                    live ? "   " : "\n");
        std::fflush(stdout);
    }

    int conclude() {
        double seconds = std::chrono::duration<double>(steady_clock::now() - begun_).count();
        std::int64_t left = pool_.with([&](Connection& c) { return book_.left(c); });
        pool_.with([&](Connection& c) { book_.tear_down(c); });
        bool balanced = left == ledger_.left();
        table(seconds, balanced);
        return ledger_.failures() == 0 && balanced ? 0 : 1;
    }

    void table(double seconds, bool balanced) const {
        cenote::stats s = pool_.stats();
        cenote::histogram times = ledger_.times();
        auto row = [](const char* what, const std::string& value) {
            std::printf("  %-34s %s\n", what, value.c_str());
        };
        auto number = [](double value, const char* unit) {
            char text[64];
            std::snprintf(text, sizeof text, "%.1f %s", value, unit);
            return std::string(text);
        };
        std::printf("\n%zu coroutines, %zu connections, %.1f s\n", how_.coroutines,
                    how_.connections, seconds);
        row("operations", std::to_string(ledger_.operations()) + " (" +
                              std::to_string(ledger_.looks()) + " looks, " +
                              std::to_string(ledger_.trades()) + " orders)");
        row("operations per second",
            number(static_cast<double>(ledger_.operations()) / seconds, ""));
        row("time of one, with its wait: p50", number(milliseconds(times.quantile(0.5)), "ms"));
        row("                            p99", number(milliseconds(times.quantile(0.99)), "ms"));
        row("wait for a connection:      p50", number(milliseconds(s.wait.quantile(0.5)), "ms"));
        row("                            p99", number(milliseconds(s.wait.quantile(0.99)), "ms"));
        row("connections opened", std::to_string(s.opened) + " (at most " +
                                      std::to_string(how_.connections) + " at a time)");
        row("the book", balanced ? "adds up" : "DOES NOT ADD UP");
        row("failures", ledger_.failures() == 0 ? "none"
                                                : std::to_string(ledger_.failures()) +
                                                      ", the first: " + ledger_.first_failure());
    }

    const settings& how_;
    order_book book_;
    cenote::pool<Connection> pool_;
    ledger ledger_;
    std::atomic<bool> over_{false};
    std::atomic<std::size_t> ended_{0};
    steady_clock::time_point begun_;
};

#ifdef CENOTE_HAS_POSTGRES
int run_on_postgres(const settings& how) {
    show<cenote::postgres::connection> it(
        how, cenote::postgres::connector{how.url},
        {.lock = "FOR UPDATE SKIP LOCKED", .identity = "BIGSERIAL PRIMARY KEY", .numbered = true});
    return it.run();
}
#endif

#ifdef CENOTE_HAS_MARIADB
int run_on_mariadb(const settings& how) {
    show<cenote::mariadb::connection> it(
        how, cenote::mariadb::connector{how.url},
        {.lock = "FOR UPDATE SKIP LOCKED", .identity = "BIGINT PRIMARY KEY AUTO_INCREMENT"});
    return it.run();
}
#endif

int run_on_sqlite(const settings& how, const std::string& url) {
    show<cenote::sqlite::connection> it(how, cenote::sqlite::connector{url},
                                        {.begin = "BEGIN IMMEDIATE"});
    return it.run();
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    CLI::App* command = app.add_subcommand(
        "demo",
        "Many coroutines share a few database connections: an order book, for people to watch.");
    command->add_option("--url", into.url,
                        "Database to use: postgresql://..., mariadb://... or sqlite:/path; without "
                        "it, an SQLite file that goes when the demo ends. Uses a table of its own, "
                        "cenote_demo_orders.");
    command->add_option("--seconds", into.seconds, "How long")
        ->capture_default_str()
        ->check(CLI::Range(0.1, 86400.0));
    command->add_option("--coroutines", into.coroutines, "How many share them")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    command->add_option("--connections", into.connections, "How many there are at most")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    command->add_option("--threads", into.threads, "Threads of the event loop")
        ->capture_default_str()
        ->check(CLI::Range(1, 64));
    command->add_flag("--plain", into.plain, "A line per second instead of one that changes");
    return command;
}

int run(const settings& how) {
    if (how.url.empty()) {
        temporary_folder folder;
        return run_on_sqlite(how,
                             "sqlite:" + (folder.path() / "demo.db").string() + "?synchronous=off");
    }
    std::string scheme = cenote::url::parse(how.url).scheme;
    if (scheme == "sqlite") return run_on_sqlite(how, how.url);
#ifdef CENOTE_HAS_POSTGRES
    if (scheme == "postgresql" || scheme == "postgres") return run_on_postgres(how);
#endif
#ifdef CENOTE_HAS_MARIADB
    if (scheme == "mariadb" || scheme == "mysql") return run_on_mariadb(how);
#endif
    throw std::invalid_argument("cenote demo: no database for URLs that begin with " + scheme +
                                ":");
}

}  // namespace demo

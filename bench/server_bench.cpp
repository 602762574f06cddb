// cenote-server-bench: what a pool costs in front of real servers: queries through a pool against
// the same number of connections held by hand, and against a connection for each query.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <malloc.h>
#include <string>
#include <thread>
#include <vector>

#include "support/real_server.hpp"
#include <cenote/http.hpp>
#include <cenote/mariadb.hpp>
#include <cenote/pool.hpp>
#include <cenote/postgres.hpp>
#include <cenote/redis.hpp>
#include <cenote/sqlite.hpp>

namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr std::size_t connections = 8;
constexpr int rounds = 9;
constexpr auto turn = 400ms;

/// Runs `work(thread)` again and again on as many threads as there are connections; how often in a
/// second.
double rate(const std::function<void(std::size_t)>& work, steady_clock::duration time) {
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> done{0};
    std::vector<std::thread> threads;
    auto begun = steady_clock::now();
    for (std::size_t t = 0; t < connections; ++t)
        threads.emplace_back([&, t] {
            std::uint64_t mine = 0;
            for (; !over; ++mine) work(t);
            done += mine;
        });
    std::this_thread::sleep_for(time);
    over = true;
    for (std::thread& t : threads) t.join();
    return static_cast<double>(done) /
           std::chrono::duration<double>(steady_clock::now() - begun).count();
}

double median(std::vector<double> all) {
    std::ranges::sort(all);
    return all[all.size() / 2];
}

/// What a connection that has been used takes up in this process.
template <class Connector, class Query>
double heap_per_connection(Connector& connector, Query& query) {
    constexpr std::size_t many = 20;
    std::deque<decltype(connector.open())> open;
    auto before = mallinfo2().uordblks;
    for (std::size_t i = 0; i < many; ++i) {
        open.push_back(connector.open());
        query(open.back());
    }
    return static_cast<double>(mallinfo2().uordblks - before) / many / 1024;
}

/// One server: the two take turns, so that whatever else the machine does meets both.
template <class Connector, class Query>
void measure(const char* name, Connector connector, Query query) {
    using connection = decltype(connector.open());
    double heap = heap_per_connection(connector, query);
    cenote::pool<connection> pool{connector, {.max = connections, .min_size = connections}};
    std::deque<connection> own;
    for (std::size_t i = 0; i < connections; ++i) own.push_back(connector.open());
    auto by_hand = [&](std::size_t t) { query(own[t]); };
    auto pooled = [&](std::size_t) {
        auto lease = pool.acquire();
        query(*lease);
    };
    auto each_its_own = [&](std::size_t) {
        connection c = connector.open();
        query(c);
        connector.close(c);
    };
    std::vector<double> hand_rates, pool_rates, ratios;
    rate(by_hand, turn), rate(pooled, turn);
    for (int i = 0; i < rounds; ++i) {
        hand_rates.push_back(rate(by_hand, turn));
        pool_rates.push_back(rate(pooled, turn));
        ratios.push_back(pool_rates.back() / hand_rates.back());
    }
    double fresh = rate(each_its_own, turn);
    std::printf("%-34s %9.0f %9.0f %8.1f %% %9.0f %7.1f x %8.1f KiB\n", name, median(hand_rates),
                median(pool_rates), 100 * median(ratios), fresh, median(pool_rates) / fresh, heap);
    std::fflush(stdout);
}

std::string url(const char* scheme, std::uint16_t port, const char* rest) {
    return std::string(scheme) + "://app:" + support::canary_password +
           "@127.0.0.1:" + std::to_string(port) + rest;
}

void bench_sqlite() {
    support::temporary_folder folder("sqlite-bench", "");
    cenote::sqlite::connector to{"sqlite:" + (folder.path() / "bench.db").string()};
    measure("SQLite, a look at a row", to,
            [](auto& c) { return c.execute("SELECT count(*) FROM sqlite_schema"); });
}

void bench_postgres() {
    support::postgres_server server{{.max_connections = 60}};
    auto query = [](auto& c) { return c.execute("SELECT $1::bigint", 42); };
    std::string plain = url("postgresql", server.port(), "/orders");
    measure("PostgreSQL, full reset", cenote::postgres::connector{plain}, query);
    measure("PostgreSQL, unsafe_reset_by_tag",
            cenote::postgres::connector{plain + "?unsafe_reset_by_tag=on"}, query);
    auto careful = [](auto& c) {
        c.execute("SELECT $1::bigint", 42);
        return c.execute("DISCARD ALL");
    };
    measure("PostgreSQL, both reset",
            cenote::postgres::connector{plain + "?unsafe_reset_by_tag=on"}, careful);
    support::pgbouncer_server bouncer{server, {.pool_size = connections}};
    measure("PostgreSQL behind PgBouncer",
            cenote::postgres::connector{url("postgresql", bouncer.port(), "/orders") +
                                        "?unsafe_reset_by_tag=on"},
            query);
}

void bench_mariadb() {
    support::mariadb_server server{{.max_connections = 60}};
    auto query = [](auto& c) { return c.execute("SELECT ?", 42); };
    std::string plain = url("mariadb", server.port(), "/orders");
    measure("MariaDB, full reset", cenote::mariadb::connector{plain}, query);
    measure("MariaDB, unsafe_reset_by_tracking",
            cenote::mariadb::connector{plain + "?unsafe_reset_by_tracking=on"}, query);
}

void bench_redis() {
    support::redis_server server{{.max_clients = 100}};
    std::string at = "redis://:" + std::string(support::canary_password) +
                     "@127.0.0.1:" + std::to_string(server.port());
    measure("Redis", cenote::redis::connector{at}, [](auto& c) { return c.command("GET", "key"); });
}

void bench_http() {
    support::nginx_server server{{.keepalive_requests = 1'000'000'000}};
    std::string at = "http://127.0.0.1:" + std::to_string(server.port());
    measure("HTTP, nginx", cenote::http::connector{at},
            [](auto& c) { return c.send(cenote::http::request("GET", "/echo?nonce=1")); });
}

}  // namespace

int main(int argc, char** argv) {
    std::string only = argc > 1 ? argv[1] : "";
    if (only == "--help" || only == "-h") {
        std::puts("usage: cenote-server-bench [sqlite|postgres|mariadb|redis|http]");
        return 0;
    }
    std::printf("%zu threads, one query per lease; medians of %d turns, in turn\n\n", connections,
                rounds);
    std::printf("%-34s %9s %9s %10s %9s %9s %12s\n", "queries per second", "by hand", "pool",
                "pool/hand", "each new", "factor", "heap each");
    if (only.empty() || only == "sqlite") bench_sqlite();
    if (only.empty() || only == "postgres") bench_postgres();
    if (only.empty() || only == "mariadb") bench_mariadb();
    if (only.empty() || only == "redis") bench_redis();
    if (only.empty() || only == "http") bench_http();
}

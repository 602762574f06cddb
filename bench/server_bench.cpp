// The cost of a pool with real servers: a lease per query, compared with a connection per thread
// and with a new connection per query.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <malloc.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "support/gate.hpp"
#include "support/real_server.hpp"
#include "thread_group.hpp"
#include "workloads.hpp"
#include <cenote/http.hpp>
#include <cenote/mariadb.hpp>
#include <cenote/pool.hpp>
#include <cenote/postgres.hpp>
#include <cenote/redis.hpp>
#include <cenote/sqlite.hpp>

namespace cenote::bench {

namespace {

constexpr std::size_t connections = 8;
constexpr std::size_t many = 40;  // connections whose memory is measured

/// Runs `query(thread)` again and again, on a thread per connection.
template <class Query>
measured run_queries(double seconds, Query query) {
    group_result done = repeat_on_threads(connections, false, seconds, query);
    return {.metrics = {{"queries", done.per_second() * 1e-3, "k/s"}}, .cores = done.cores};
}

/// Opens `count` connections, uses each, and exits with all of them open.
template <class Connector, class Query>
[[noreturn]] void open_and_exit(Connector& connector, Query& query, std::size_t count) {
    try {
        std::deque<decltype(connector.open())> opened;
        for (std::size_t i = 0; i < count; ++i) query(opened.emplace_back(connector.open()));
        ::_exit(0);
    } catch (...) {
        ::_exit(1);  // reported by the parent
    }
}

/// The peak memory of a child process with `count` connections, in KiB.
template <class Connector, class Query>
double peak_with(Connector& connector, Query& query, std::size_t count) {
    ::malloc_trim(0);  // free memory of this process would hide the child's allocations
    pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("cenote-bench: fork failed");
    if (child == 0) open_and_exit(connector, query, count);
    int status = 0;
    rusage used{};
    if (::wait4(child, &status, 0, &used) != child || status != 0)
        throw std::runtime_error("cenote-bench: the child that measures memory failed");
    return static_cast<double>(used.ru_maxrss);
}

template <class Connector, class Query>
measured run_memory(Connector connector, Query query) {
    double more = peak_with(connector, query, many + 1) - peak_with(connector, query, 1);
    return {.metrics = {{"peak memory", more / many, "KiB"}}};
}

/// A connection per thread, without a pool.
template <class Connector, class Query>
subject by_hand(std::string name, Connector connector, Query query) {
    using connection = decltype(connector.open());
    auto own = std::make_shared<std::deque<connection>>();
    for (std::size_t i = 0; i < connections; ++i) own->push_back(connector.open());
    return {std::move(name), [=](double seconds) {
                return run_queries(seconds, [&](std::size_t thread) { query((*own)[thread]); });
            }};
}

/// A connection per thread with a reset after each query, as a pool must do.
template <class Connector, class Query>
subject by_hand_and_reset(Connector connector, Query query) {
    auto both = [by = std::make_shared<Connector>(connector), query](auto& c) {
        query(c);
        by->before_release(c);
        by->reset(c);
    };
    return by_hand("by hand, and reset", connector, both);
}

/// A lease for each query.
template <class Connector, class Query>
subject by_pool(std::string name, Connector connector, Query query) {
    using connection = decltype(connector.open());
    auto from = std::make_shared<pool<connection>>(
        connector, options{.max = connections, .min_size = connections});
    return {std::move(name), [=](double seconds) {
                return run_queries(seconds, [&](std::size_t) {
                    auto lease = from->acquire();
                    query(*lease);
                });
            }};
}

/// A new connection for each query.
template <class Connector, class Query>
subject without(Connector connector, Query query) {
    return {"a connection each", [=](double seconds) {
                return run_queries(seconds, [&](std::size_t) {
                    Connector own = connector;
                    auto opened = own.open();
                    query(opened);
                    own.close(opened);
                });
            }};
}

template <class Connector, class Query>
subject memory_of(Connector connector, Query query) {
    return {"a connection", [=](double) { return run_memory(connector, query); }};
}

/// The pool waits for each reset, so there is no goal against connections without resets.
workload reset_at_release(workload w) {
    w.about = "one value; sessions are reset after each lease, and the pool waits for that";
    w.goals.erase(w.goals.begin());
    return w;
}

/// The cost of leases with replies that are 0.5 ms late, as on a network.
template <class Connector, class Query>
workload from_away(double limit, Connector by_default, Connector at_release, Query query) {
    return {.about = "the same, each reply 0.5 ms late",
            .subjects = {by_hand("by hand", by_default, query), by_pool("pool", by_default, query),
                         by_pool("pool, reset at release", at_release, query)},
            .goals = {{"queries, pool / by hand", goal::bound::at_least, limit,
                       ratio("pool", "by hand", "queries")}}};
}

/// A proxy that delays the replies of a local server.
std::shared_ptr<support::gate> far_from(std::uint16_t port) {
    auto between = std::make_shared<support::gate>(port);
    between->delay(std::chrono::microseconds(500));
    return between;
}

goal at_least_97_percent(const char* one, const char* other) {
    return {std::string("queries, ") + one + " / " + other, goal::bound::at_least, 0.97,
            ratio(one, other, "queries")};
}

/// A pool must not be slower than a new connection per query.
goal factor() {
    return {"queries, pool / a connection each", goal::bound::at_least, 1,
            ratio("pool", "a connection each", "queries")};
}

template <class Connector, class Query>
workload four_ways(std::string about, Connector connector, Query query) {
    return {.about = std::move(about),
            .subjects = {by_hand("by hand", connector, query), by_pool("pool", connector, query),
                         without(connector, query), memory_of(connector, query)},
            .goals = {at_least_97_percent("pool", "by hand"), factor()}};
}

/// For connectors that must reset a session after each lease.
template <class Connector, class Query>
workload five_ways(Connector connector, Query query) {
    workload w = four_ways("one value; sessions are reset after each lease", connector, query);
    w.subjects.push_back(by_hand_and_reset(connector, query));
    // The pool resets on its own threads, so that a release does not wait: this takes two more
    // thread switches (docs/decisions/0018-full-reset.md).
    w.goals.push_back({"queries, pool / by hand, and reset", goal::bound::at_least, 0.5,
                       ratio("pool", "by hand, and reset", "queries")});
    return w;
}

void run_sqlite(report& into) {
    into.run("server-sqlite", [] {
        auto folder = std::make_shared<support::temporary_folder>("sqlite-bench", "-");
        sqlite::connector to{"sqlite:" + (folder->path() / "bench.db").string()};
        to.open().execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)");
        to.open().execute("INSERT INTO orders VALUES (42, 'a name')");
        auto query = [folder](auto& c) { c.execute("SELECT name FROM orders WHERE id = ?", 42); };
        return four_ways("a row by its key; 8 threads and connections", to, query);
    });
}

void run_postgres(report& into) {
    auto query = [](auto& c) { c.execute("SELECT $1::int8", 42); };
    std::shared_ptr<support::postgres_server> server;
    std::shared_ptr<support::pgbouncer_server> bouncer;
    auto start = [&] {
        if (server) return;
        server = std::make_shared<support::postgres_server>(
            support::postgres_options{.max_connections = 100});
        bouncer = std::make_shared<support::pgbouncer_server>(
            *server, support::pgbouncer_options{.pool_size = static_cast<int>(connections)});
    };
    auto direct = [&](const char* more) {
        start();
        return postgres::connector{support::app_url("postgresql", server->port()) + more};
    };
    into.run("server-postgres", [&] {
        workload w = five_ways(direct(""), query);
        w.about = "one value; each session is reset before the next lease's query";
        w.goals.front().limit = 0.80;
        return w;
    });
    into.run("server-postgres-two", [&] {
        workload w =
            four_ways("the same, two queries for each lease", direct(""), [query](auto& c) {
                query(c);
                query(c);
            });
        w.goals.front().limit = 0.90;
        return w;
    });
    into.run("server-postgres-at-release",
             [&] { return reset_at_release(five_ways(direct("?reset=at_release"), query)); });
    into.run("server-postgres-by-tag", [&] {
        return four_ways("the same with reset=by_tag, which skips the reset after a SELECT",
                         direct("?reset=by_tag"), query);
    });
    std::shared_ptr<support::gate> away;
    into.run("server-postgres-away", [&] {
        start();
        away = far_from(server->port());
        std::string at = support::app_url("postgresql", away->port());
        return from_away(0.95, postgres::connector{at},
                         postgres::connector{at + "?reset=at_release"}, query);
    });
    into.run("server-pgbouncer", [&] {
        auto ours = direct("?reset=by_tag");
        postgres::connector behind{support::app_url("postgresql", bouncer->port())};
        workload w{
            .about = "the pool against PgBouncer in transaction mode, which resets nothing",
            .subjects = {by_pool("pool", ours, query), by_hand("PgBouncer, kept", behind, query),
                         without(behind, query)},
            .goals = {{"queries, pool / PgBouncer with connections kept", goal::bound::at_least, 1,
                       ratio("pool", "PgBouncer, kept", "queries")},
                      factor()}};
        return w;
    });
}

void run_mariadb(report& into) {
    auto query = [](auto& c) { c.execute("SELECT ?", 42); };
    std::shared_ptr<support::mariadb_server> server;
    auto direct = [&](const char* more) {
        if (!server)
            server = std::make_shared<support::mariadb_server>(
                support::mariadb_options{.max_connections = 100});
        return mariadb::connector{support::app_url("mariadb", server->port()) + more};
    };
    into.run("server-mariadb", [&] {
        workload w = five_ways(direct(""), query);
        w.about = "one value; each session is reset before the next lease's statement";
        w.goals.front().limit = 0.55;
        return w;
    });
    into.run("server-mariadb-at-release",
             [&] { return reset_at_release(five_ways(direct("?reset=at_release"), query)); });
    std::shared_ptr<support::gate> away;
    into.run("server-mariadb-away", [&] {
        direct("");
        away = far_from(server->port());
        std::string at = support::app_url("mariadb", away->port());
        return from_away(0.90, mariadb::connector{at}, mariadb::connector{at + "?reset=at_release"},
                         query);
    });
    into.run("server-mariadb-by-tracking", [&] {
        return four_ways(
            "the same with reset=by_tracking, which resets only what the server reports",
            direct("?reset=by_tracking"), query);
    });
}

void run_redis(report& into) {
    std::shared_ptr<support::redis_server> server;
    into.run("server-redis", [&] {
        server =
            std::make_shared<support::redis_server>(support::redis_options{.max_clients = 200});
        redis::connector to{"redis://:" + std::string(support::canary_password) +
                            "@127.0.0.1:" + std::to_string(server->port())};
        return four_ways("GET", to, [](auto& c) { c.command("GET", "key"); });
    });
}

void run_http(report& into) {
    std::shared_ptr<support::nginx_server> server;
    into.run("server-http", [&] {
        server = std::make_shared<support::nginx_server>(
            support::nginx_options{.keepalive_requests = 1'000'000'000});
        http::connector to{"http://127.0.0.1:" + std::to_string(server->port())};
        auto query = [](auto& c) { c.send(http::request("GET", "/echo?nonce=1")); };
        return four_ways("a short GET from nginx", to, query);
    });
}

}  // namespace

void run_servers(report& into) {
    run_sqlite(into);
    run_postgres(into);
    run_mariadb(into);
    run_redis(into);
    run_http(into);
}

}  // namespace cenote::bench

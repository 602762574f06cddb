// W6: PostgreSQL with 64 borrowers on 8 connections; each lease reads a row by its key.
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <libpq-fe.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cenote/asio.hpp"
#include "cenote/pool.hpp"
#include "cenote/postgres.hpp"
#include "stopwatch.hpp"
#include "support/real_server.hpp"
#include "textbook_pool.hpp"
#include "thread_group.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

namespace asio = boost::asio;

constexpr std::size_t connections = 8;
constexpr std::size_t borrowers = 64;
constexpr std::int64_t rows = 10'000;
/// Lets running threads bypass the line; for more threads than processors.
const options bypassing{.fairness = fairness::bounded, .bypass_for = std::chrono::milliseconds(10)};
constexpr const char* question = "select balance from account where id = $1";

/// Cheap random ids, one object per thread.
class alignas(64) ids {
public:
    explicit ids(std::size_t seed) : state_(seed * 2 + 1) {}
    std::int64_t next() {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<std::int64_t>((state_ >> 33) % rows) + 1;
    }

private:
    std::uint64_t state_;
};

using result_ptr = std::unique_ptr<PGresult, void (*)(PGresult*)>;

std::int64_t number_in(const result_ptr& r) {
    if (PQntuples(r.get()) != 1) throw std::runtime_error(PQresultErrorMessage(r.get()));
    return std::strtoll(PQgetvalue(r.get(), 0, 0), nullptr, 10);
}

/// A libpq connection for one query.
struct handle {
    explicit handle(const std::string& where) : it(PQconnectdb(where.c_str()), &PQfinish) {
        if (PQstatus(it.get()) != CONNECTION_OK) throw std::runtime_error("connection failed");
    }
    std::int64_t ask(std::int64_t id) const {
        std::string text = std::to_string(id);
        const char* value = text.c_str();
        return number_in(
            {PQexecParams(it.get(), question, 1, nullptr, &value, nullptr, nullptr, 0), &PQclear});
    }

    std::unique_ptr<PGconn, void (*)(PGconn*)> it;
};

/// A libpq connection with a prepared query.
struct prepared_handle : handle {
    explicit prepared_handle(const std::string& where) : handle(where) {
        PQclear(PQprepare(it.get(), "question", question, 1, nullptr));
    }
    std::int64_t ask(std::int64_t id) const {
        std::string text = std::to_string(id);
        const char* value = text.c_str();
        return number_in(
            {PQexecPrepared(it.get(), "question", 1, &value, nullptr, nullptr, 0), &PQclear});
    }
};

std::int64_t ask(postgres::connection& c, std::int64_t id) {
    return c.execute(question, id).scalar<std::int64_t>();
}
template <class Handle>
std::int64_t ask(const Handle& h, std::int64_t id) {
    return h.ask(id);
}

/// `borrow(index)` returns a lease of a connection.
template <class Borrow>
measured with_threads(std::size_t threads, double seconds, Borrow borrow) {
    std::vector<ids> each;
    for (std::size_t i = 0; i < threads; ++i) each.emplace_back(i);
    return run_timed(threads, seconds, borrow,
                     [&](auto& lease, std::size_t index) { ask(*lease, each[index].next()); })
        .as_measured("queries");
}

/// A connection per thread: the most that the server can serve.
subject by_hand(const std::string& where) {
    auto own = std::make_shared<std::vector<prepared_handle>>();
    for (std::size_t i = 0; i < connections; ++i) own->emplace_back(where);
    return {"by hand", [=](double seconds) {
                return with_threads(connections, seconds,
                                    [&](std::size_t thread) { return &(*own)[thread]; });
            }};
}

/// A pool for threads, with the connector of `open`.
template <class Open>
subject with_pool(std::string name, Open open, options how = {}) {
    using connection = typename Open::connection;
    how.max = connections;
    how.min_size = connections;
    auto from = std::make_shared<pool<connection>>(open.connector, how);
    return {std::move(name), [=](double seconds) {
                return with_threads(borrowers, seconds,
                                    [&](std::size_t) { return from->acquire(); });
            }};
}

struct by_libpq {
    using connection = prepared_handle;
    struct opener {
        std::string where;
        prepared_handle open() const { return prepared_handle(where); }
    } connector;
};

struct by_connector {
    using connection = postgres::connection;
    postgres::connector connector;
};

/// Coroutines on one thread.
measured with_coroutines(const std::string& url, double seconds) {
    asio::io_context io(1);
    pool<postgres::connection> from{io, postgres::async_connector{url},
                                    options{.max = connections, .min_size = connections}};
    std::atomic<bool> stop{false};
    timed_result done;
    done.served.resize(borrowers);
    std::size_t ended = 0;
    auto borrow = [&](std::size_t seed) -> asio::awaitable<void> {
        ids id(seed);
        while (!stop.load(std::memory_order_relaxed)) {
            std::uint64_t begun = ticks();
            auto lease = co_await from.async_acquire(asio::use_awaitable);
            done.all.record(ticks() - begun);
            sql::result r = co_await lease->async_execute(question, id.next());
            if (r.empty()) throw std::runtime_error("no such account");
            ++done.served[seed];
        }
        // The loop runs until the pool is closed.
        if (++ended == borrowers)
            co_await from.async_close(std::chrono::seconds(1), asio::use_awaitable);
    };
    for (std::size_t i = 0; i < borrowers; ++i) asio::co_spawn(io, borrow(i), asio::detached);
    stopwatch watch;
    std::thread stopper([&] {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        stop = true;
    });
    io.run();
    stopper.join();
    done.seconds = seconds;
    done.cores = watch.cores();
    return done.as_measured("queries");
}

/// A new connection to PgBouncer for each query, without a pool in the client. Not prepared,
/// because sessions are shared.
measured unpooled(const std::string& where, double seconds) {
    return with_threads(borrowers, seconds,
                        [&](std::size_t) { return std::make_unique<handle>(where); });
}

struct servers {
    support::postgres_server server{{.max_connections = 150}};
    support::pgbouncer_server bouncer{server, {.pool_size = static_cast<int>(connections)}};

    servers() {
        server.execute_as_admin(
            "create table account (id int primary key, balance bigint not null); "
            "insert into account select i, i * 7 from generate_series(1, " +
                std::to_string(rows) + ") as i; grant select on account to app; analyze account",
            "orders");
    }
    static std::string conninfo(std::uint16_t port) {
        return "host=127.0.0.1 port=" + std::to_string(port) +
               " user=app password=" + support::canary_password + " dbname=orders";
    }
    std::string url() const { return support::app_url("postgresql", server.port()); }
    std::string for_peer_processes() const {
        return "w6 size=8 borrowers=64 host=127.0.0.1 port=" + std::to_string(server.port()) +
               " user=app password=" + support::canary_password + " database=orders";
    }
};

workload queries(const peer_processes& peers) {
    auto at = std::make_shared<servers>();
    std::string where = servers::conninfo(at->server.port());
    std::string trusting = at->url() + "?reset=by_tag&statement_cache=10";
    workload w{
        .about = "PostgreSQL, 64 borrowers on 8 connections: a row by its key for each lease",
        .seconds = 1,
        .subjects = {
            by_hand(where),
            with_pool("cenote, libpq", by_libpq{{where}}),
            with_pool("cenote, libpq, strict", by_libpq{{where}}, {.fairness = fairness::strict}),
            with_pool("cenote, libpq, bounded", by_libpq{{where}}, bypassing),
            with_pool("cenote, threads", by_connector{postgres::connector{trusting}}),
            with_pool("cenote, threads, bounded", by_connector{postgres::connector{trusting}},
                      bypassing),
            with_pool("cenote, default", by_connector{postgres::connector{at->url()}}),
            {"cenote, coroutines", [=](double s) { return with_coroutines(trusting, s); }},
            {"cenote, coroutines, default",
             [=](double s) { return with_coroutines(at->url(), s); }},
            {"PgBouncer, unpooled",
             [=](double s) { return unpooled(servers::conninfo(at->bouncer.port()), s); }}}};
    const std::vector<std::string> names{psycopg_pool, hikaricp, commons_pool2, pgxpool};
    peers.add_subjects(w, names, at->for_peer_processes());
    using enum goal::bound;
    for (const char* one : {"cenote, libpq", "cenote, libpq, bounded"})
        w.goals.push_back(
            {std::string(one) + " / by hand", at_least, 0.98, ratio(one, "by hand", "queries")});
    auto beats = [&](const char* one, double factor) {
        w.goals.push_back({std::string(one) + " / the best peer", at_least, factor,
                           ratio_to_best(one, names, "queries", best::largest)});
    };
    beats("cenote, libpq", 1);
    w.goals.push_back({"longest wait, cenote, libpq / the best peer", at_most, 0.25,
                       ratio_to_leader("cenote, libpq", names, "queries", "wait longest")});
    w.goals.push_back({"least / most served, cenote, libpq", at_least, 0.8,
                       value_of("cenote, libpq", "least/most")});
    beats("cenote, coroutines", 0.95);
    for (const char* one : {"cenote, libpq, bounded", "cenote, threads", "cenote, threads, bounded",
                            "cenote, default"})
        beats(one, 1);
    w.goals.push_back({"cenote, threads / PgBouncer, unpooled", at_least, 1,
                       ratio("cenote, threads", "PgBouncer, unpooled", "queries")});
    return w;
}

subject with_textbook_pool(const std::string& where) {
    auto from = std::make_shared<textbook_pool<prepared_handle>>(
        connections, [&] { return std::make_unique<prepared_handle>(where); });
    return {"textbook", [=](double seconds) {
                return with_threads(borrowers, seconds,
                                    [&](std::size_t) { return from->acquire(); });
            }};
}

/// The effect of `turns` and of `bypass_for`, up to 10 ms; this workload chose the default.
workload bypasses() {
    auto at = std::make_shared<servers>();
    std::string where = servers::conninfo(at->server.port());
    workload w{.about = "like w6-postgres, with threads and libpq; how long newcomers may bypass",
               .seconds = 1,
               .subjects = {}};
    subject own = by_hand(where);
    w.subjects.push_back({own.name, [at, run = own.run](double s) { return run(s); }});
    w.subjects.push_back(with_textbook_pool(where));
    w.subjects.push_back(with_pool("strict", by_libpq{{where}}, {.fairness = fairness::strict}));
    w.subjects.push_back(with_pool("turns", by_libpq{{where}}, {.fairness = fairness::turns}));
    for (int microseconds : {200, 500, 1'000, 2'000, 5'000, 10'000})
        w.subjects.push_back(with_pool("bypass_for " + std::to_string(microseconds) + " µs",
                                       by_libpq{{where}},
                                       {.fairness = fairness::bounded,
                                        .bypass_for = std::chrono::microseconds(microseconds)}));
    return w;
}

}  // namespace

void run_queries(report& into, const peer_processes& peers) {
    into.run("w6-bypass", bypasses);
    into.run("w6-postgres", [&] { return queries(peers); });
}

}  // namespace cenote::bench

// PostgreSQL, 64 borrowers on 8 connections: a row by its primary key for each lease.
#include <algorithm>
#include <array>
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
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cenote/asio.hpp"
#include "cenote/pool.hpp"
#include "cenote/postgres.hpp"
#include "crew.hpp"
#include "stopwatch.hpp"
#include "support/real_server.hpp"
#include "textbook_pool.hpp"
#include "waits.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

namespace asio = boost::asio;

constexpr std::size_t connections = 8;
constexpr std::size_t borrowers = 64;
constexpr std::int64_t rows = 10'000;
/// For more threads than the processors can run at once: whoever runs goes on for a while.
const options overtaking{.fairness = fairness::bounded,
                         .bypass_for = std::chrono::milliseconds(10)};
constexpr const char* question = "select balance from account where id = $1";

/// A random id for each question, cheaply.
class ids {
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

/// libpq as it comes, for one question.
struct handle {
    explicit handle(const std::string& where) : it(PQconnectdb(where.c_str()), &PQfinish) {
        if (PQstatus(it.get()) != CONNECTION_OK) throw std::runtime_error("no connection");
    }
    std::int64_t ask(std::int64_t id) const {
        std::string text = std::to_string(id);
        const char* value = text.c_str();
        return number_in(
            {PQexecParams(it.get(), question, 1, nullptr, &value, nullptr, nullptr, 0), &PQclear});
    }

    std::unique_ptr<PGconn, void (*)(PGconn*)> it;
};

/// The same for many: what is prepared once is asked again and again.
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

/// `served`: how many queries each borrower had answered.
measured answered(double per_second, double cores, const waits& all,
                  const std::vector<std::uint64_t>& served) {
    auto microseconds = [](std::uint64_t ticks) {
        return static_cast<double>(ticks) * nanoseconds_per_tick() * 1e-3;
    };
    auto [least, most] = std::minmax_element(served.begin(), served.end());
    double evenness = static_cast<double>(*least) / static_cast<double>(std::max(*most, 1ul));
    return {.metrics = {{"queries", per_second * 1e-3, "k/s"},
                        {"wait p50", microseconds(all.quantile(0.5)), "us"},
                        {"wait p99", microseconds(all.quantile(0.99)), "us"},
                        {"wait longest", microseconds(all.longest()), "us"},
                        {"least/most", evenness, ""}},
            .cores = cores};
}

/// `borrow(asked)` gives a lease of a connection; `threads` of them at a time.
template <class Borrow>
measured with_threads(std::size_t threads, double seconds, Borrow borrow) {
    std::vector<waits> each(threads);
    shift done =
        run_crew(threads, false, seconds, [&](std::size_t index, const std::atomic<bool>& stop) {
            ids id(index);
            std::uint64_t queries = 0;
            for (; !stop.load(std::memory_order_relaxed); ++queries) {
                std::uint64_t asked = ticks();
                auto lease = borrow(index);
                each[index].record(ticks() - asked);
                ask(*lease, id.next());
            }
            return queries;
        });
    waits all;
    for (const waits& w : each) all.add(w);
    return answered(done.per_second(), done.cores, all, done.served);
}

/// One connection for each of as many threads: as much as can be had of the server.
subject by_hand(const std::string& where) {
    auto own = std::make_shared<std::vector<prepared_handle>>();
    for (std::size_t i = 0; i < connections; ++i) own->emplace_back(where);
    return {"by hand", [=](double seconds) {
                return with_threads(connections, seconds,
                                    [&](std::size_t thread) { return &(*own)[thread]; });
            }};
}

/// A pool of whatever `open` makes, for threads.
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

struct handles {
    using connection = prepared_handle;
    struct opener {
        std::string where;
        prepared_handle open() const { return prepared_handle(where); }
    } connector;
};

struct cenotes {
    using connection = postgres::connection;
    postgres::connector connector;
};

/// As many coroutines on one thread.
measured with_coroutines(const std::string& url, double seconds) {
    asio::io_context io(1);
    pool<postgres::connection> from{io, postgres::async_connector{url},
                                    options{.max = connections, .min_size = connections}};
    std::atomic<bool> stop{false};
    std::vector<std::uint64_t> served(borrowers);
    std::size_t ended = 0;
    waits all;
    auto borrow = [&](std::size_t seed) -> asio::awaitable<void> {
        ids id(seed);
        while (!stop.load(std::memory_order_relaxed)) {
            std::uint64_t asked = ticks();
            auto lease = co_await from.async_acquire(asio::use_awaitable);
            all.record(ticks() - asked);
            sql::result r = co_await lease->async_execute(question, id.next());
            if (r.empty()) throw std::runtime_error("no such account");
            ++served[seed];
        }
        // The pool keeps the loop busy until it is closed.
        if (++ended == borrowers)
            co_await from.async_close(std::chrono::seconds(1), asio::use_awaitable);
    };
    for (std::size_t i = 0; i < borrowers; ++i) asio::co_spawn(io, borrow(i), asio::detached);
    stopwatch watch;
    std::thread whistle([&] {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
        stop = true;
    });
    io.run();
    whistle.join();
    auto queries = std::accumulate(served.begin(), served.end(), std::uint64_t{0});
    return answered(static_cast<double>(queries) / seconds, watch.cores(), all, served);
}

/// PgBouncer pools, its clients do not: a connection to it for each question. (What one of them
/// prepares, another may find or miss.)
measured unpooled(const std::string& where, double seconds) {
    return with_threads(borrowers, seconds,
                        [&](std::size_t) { return std::make_unique<handle>(where); });
}

struct place {
    support::postgres_server server{{.max_connections = 150}};
    support::pgbouncer_server bouncer{server, {.pool_size = static_cast<int>(connections)}};

    place() {
        server.execute_as_admin(
            "create table account (id int primary key, balance bigint not null); "
            "insert into account select i, i * 7 from generate_series(1, " +
                std::to_string(rows) + ") as i; grant select on account to app; analyze account",
            "orders");
    }
    static std::string words(std::uint16_t port) {
        return "host=127.0.0.1 port=" + std::to_string(port) +
               " user=app password=" + support::canary_password + " dbname=orders";
    }
    std::string url() const {
        return std::string("postgresql://app:") + support::canary_password +
               "@127.0.0.1:" + std::to_string(server.port()) + "/orders";
    }
    std::string for_guests() const {
        return "w6 size=8 borrowers=64 host=127.0.0.1 port=" + std::to_string(server.port()) +
               " user=app password=" + support::canary_password + " database=orders";
    }
};

workload queries(const guests& others) {
    auto at = std::make_shared<place>();
    std::string where = place::words(at->server.port());
    std::string trusting = at->url() + "?reset=by_tag&statement_cache=10";
    workload w{
        .about = "PostgreSQL, 64 borrowers on 8 connections: a row by its key for each lease",
        .seconds = 1,
        .subjects = {
            by_hand(where),
            with_pool("cenote, libpq", handles{{where}}),
            with_pool("cenote, libpq, turns", handles{{where}}, {.fairness = fairness::turns}),
            with_pool("cenote, libpq, bounded", handles{{where}}, overtaking),
            with_pool("cenote, threads", cenotes{postgres::connector{trusting}}),
            with_pool("cenote, threads, bounded", cenotes{postgres::connector{trusting}},
                      overtaking),
            with_pool("cenote, default", cenotes{postgres::connector{at->url()}}),
            {"cenote, coroutines", [=](double s) { return with_coroutines(trusting, s); }},
            {"cenote, coroutines, default",
             [=](double s) { return with_coroutines(at->url(), s); }},
            {"PgBouncer, unpooled",
             [=](double s) { return unpooled(place::words(at->bouncer.port()), s); }}}};
    const std::vector<std::string> peers{psycopg_pool, hikaricp, commons_pool2, pgxpool};
    others.join(w, peers, at->for_guests());
    using enum goal::bound;
    for (const char* one : {"cenote, libpq", "cenote, libpq, bounded"})
        w.goals.push_back(
            {std::string(one) + " / by hand", at_least, 0.98, ratio(one, "by hand", "queries")});
    for (const char* one :
         {"cenote, libpq", "cenote, libpq, turns", "cenote, libpq, bounded", "cenote, threads",
          "cenote, threads, bounded", "cenote, default", "cenote, coroutines"})
        w.goals.push_back({std::string(one) + " / the best peer", at_least, 1,
                           ratio_to_best(one, peers, "queries", best::largest)});
    w.goals.push_back({"cenote, threads / PgBouncer, unpooled", at_least, 1,
                       ratio("cenote, threads", "PgBouncer, unpooled", "queries")});
    return w;
}

/// Whoever runs takes what it finds, and whoever is woken fights for it.
subject with_textbook_pool(const std::string& where) {
    auto from = std::make_shared<textbook_pool<prepared_handle>>(
        connections, [&] { return std::make_unique<prepared_handle>(where); });
    return {"textbook", [=](double seconds) {
                return with_threads(borrowers, seconds,
                                    [&](std::size_t) { return from->acquire(); });
            }};
}

/// Turns, and what `bypass_for` does, from strict order to 10 ms: how the default was chosen.
workload bypasses() {
    auto at = std::make_shared<place>();
    std::string where = place::words(at->server.port());
    workload w{.about = "the same, threads and libpq; how long newcomers may overtake",
               .seconds = 1,
               .subjects = {}};
    auto hand = by_hand(where).run;
    w.subjects.push_back({"by hand", [at, hand](double s) { return hand(s); }});
    w.subjects.push_back(with_textbook_pool(where));
    w.subjects.push_back(with_pool("strict", handles{{where}}, {.fairness = fairness::strict}));
    w.subjects.push_back(with_pool("turns", handles{{where}}, {.fairness = fairness::turns}));
    for (int microseconds : {200, 500, 1'000, 2'000, 5'000, 10'000})
        w.subjects.push_back(with_pool("bypass_for " + std::to_string(microseconds) + " us",
                                       handles{{where}},
                                       {.fairness = fairness::bounded,
                                        .bypass_for = std::chrono::microseconds(microseconds)}));
    return w;
}

}  // namespace

void run_queries(report& into, const guests& others) {
    into.run("w6-bypass", bypasses);
    into.run("w6-postgres", [&] { return queries(others); });
}

}  // namespace cenote::bench

// What it costs to wait without a thread: many coroutines on few resources, and one that has not to
// wait at all.
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "asio_peers.hpp"
#include "cenote/asio.hpp"
#include "cenote/coroutine.hpp"
#include "crew.hpp"
#include "run_queue.hpp"
#include "stopwatch.hpp"
#include "subjects.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t borrowers = 10'000;
constexpr std::size_t resources = 20;

/// A pool that is measured: what acquire() returns can be awaited in a coroutine of the loop, and
/// gives what points to a thing and is handed to release().
template <class Pool, class Loop>
concept pool_on = std::constructible_from<Pool, Loop&, std::size_t> && requires(Pool& pool) {
    pool.acquire();
    &Pool::release;
};

/// cenote, awaited in Asio's coroutines.
struct cenote_on_asio : cenote_pool {
    cenote_on_asio(asio_loop&, std::size_t size) : cenote_pool(size, {.acquire_timeout = 60s}) {}

    auto acquire() { return pool.async_acquire(asio::use_awaitable); }
    static void release(lease<thing> back) { back.give_back(); }
};

/// cenote, awaited in coroutines of one's own.
struct cenote_on_queue : cenote_pool {
    cenote_on_queue(run_queue& l, std::size_t size)
        : cenote_pool(size, {.acquire_timeout = 60s}), loop(l) {}

    auto acquire() {
        return pool.co_acquire().resumed_by(
            [at = &loop](std::coroutine_handle<> ready) { at->post(ready); });
    }
    static void release(lease<thing> back) { back.give_back(); }

    run_queue& loop;
};

/// What the borrowers of one run share. A cycle counts if it ended before the whistle.
struct crowd {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> cycles{0};  // of those who have left

    bool stopped() const { return stop.load(std::memory_order_relaxed); }
};

template <class Loop, pool_on<Loop> Pool>
typename Loop::coroutine borrow(Loop& loop, Pool& pool, crowd& all) {
    for (std::uint64_t cycles = 0;; ++cycles) {
        auto lease = co_await pool.acquire();
        ++lease->uses;
        co_await loop.yield();
        pool.release(std::move(lease));
        if (!all.stopped()) continue;
        all.cycles += cycles;
        co_return;
    }
}

template <class Loop, pool_on<Loop> Pool>
typename Loop::coroutine borrow_without_yield(Pool& pool, crowd& all) {
    for (std::uint64_t cycles = 0;; ++cycles) {
        auto lease = co_await pool.acquire();
        ++lease->uses;
        pool.release(std::move(lease));
        if (!all.stopped()) continue;
        all.cycles += cycles;
        co_return;
    }
}

template <class Loop>
typename Loop::coroutine only_yield(Loop& loop, crowd& all) {
    for (std::uint64_t cycles = 0;; ++cycles) {
        co_await loop.yield();
        if (!all.stopped()) continue;
        all.cycles += cycles;
        co_return;
    }
}

struct rate {
    double per_second = 0;
    double cores = 0;
};

/// Runs what was spawned on `threads`, and has it stop after `seconds`.
template <class Loop>
rate run(Loop& loop, crowd& all, std::size_t threads, double seconds) {
    std::latch ready(static_cast<std::ptrdiff_t>(threads) + 1);
    std::vector<std::thread> running;
    for (std::size_t i = 0; i < threads; ++i)
        running.emplace_back([&, i] {
            if (threads > 1) pin_to_processor(i);
            ready.arrive_and_wait();
            loop.run();
        });
    ready.arrive_and_wait();
    stopwatch watch;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    all.stop = true;
    double took = watch.seconds();
    double cores = watch.cores();
    for (std::thread& t : running) t.join();
    return {static_cast<double>(all.cycles) / took, cores};
}

measured many(const rate& r) {
    return {.metrics = {{"cycles", r.per_second * 1e-6, "M/s"}}, .cores = r.cores};
}

measured one(const rate& r) {
    return {.metrics = {{"cycle", 1e9 / r.per_second, "ns"}}, .cores = r.cores};
}

double cores_for(std::size_t threads) { return threads == 1 ? 0.9 : 1.75; }

template <class Loop, pool_on<Loop> Pool>
subject crowd_of(const std::string& name, std::size_t threads) {
    auto go = [threads](double seconds) {
        Loop loop(threads);
        Pool pool(loop, resources);
        crowd all;
        for (std::size_t i = 0; i < borrowers; ++i) loop.spawn(borrow(loop, pool, all));
        loop.begin(borrowers);
        return many(run(loop, all, threads, seconds));
    };
    return {name, go, cores_for(threads)};
}

template <class Loop>
subject yields_of(const std::string& name, std::size_t threads) {
    auto go = [threads](double seconds) {
        Loop loop(threads);
        crowd all;
        for (std::size_t i = 0; i < borrowers; ++i) loop.spawn(only_yield(loop, all));
        loop.begin(borrowers);
        return many(run(loop, all, threads, seconds));
    };
    return {name, go, cores_for(threads)};
}

/// Runs as many chains of callbacks as there would be coroutines.
rate run_callbacks(std::size_t count, callback_borrower::hold how, std::size_t threads,
                   double seconds) {
    asio_loop loop(threads);
    channel_pool pool(loop, resources);
    crowd all;
    for (std::size_t i = 0; i < count; ++i)
        callback_borrower::start(loop, pool, how, [&all, cycles = std::uint64_t{0}]() mutable {
            if (!all.stopped()) return ++cycles, false;
            all.cycles += cycles;
            return true;
        });
    loop.begin(count);
    return run(loop, all, threads, seconds);
}

subject callbacks(const std::string& name, std::size_t threads) {
    auto go = [threads](double seconds) {
        return many(
            run_callbacks(borrowers, callback_borrower::hold::over_a_yield, threads, seconds));
    };
    return {name, go, cores_for(threads)};
}

workload crowded(std::size_t threads) {
    return {
        .about = "10 000 coroutines on 20 resources: acquire, yield, release; " +
                 std::to_string(threads) + (threads == 1 ? " thread" : " threads"),
        .seconds = 0.6,
        .subjects =
            {
                // What the loops can do without any pool.
                yields_of<asio_loop>("Asio, only yield", threads),
                yields_of<run_queue>("own loop, only yield", threads),
                // Peers.
                crowd_of<asio_loop, channel_pool>("channel, awaited", threads),
                callbacks("channel, callbacks", threads),
                crowd_of<asio_loop, strand_pool>("strand, awaited", threads),
                crowd_of<run_queue, queue_pool>("textbook, own loop", threads),
                crowd_of<asio_loop, cenote_on_asio>("cenote, awaited", threads),
                crowd_of<run_queue, cenote_on_queue>("cenote, own loop", threads),
            },
        .goals = {
            {"cenote / channel, both awaited", goal::bound::at_least, threads == 1 ? 3.5 : 1.0,
             ratio("cenote, awaited", "channel, awaited", "cycles")},
            {"cenote awaited / channel by callbacks", goal::bound::at_least,
             threads == 1 ? 1.5 : 1.0, ratio("cenote, awaited", "channel, callbacks", "cycles")},
            {"cenote on its user's loop / channel awaited", goal::bound::at_least,
             threads == 1 ? 4.0 : 3.0, ratio("cenote, own loop", "channel, awaited", "cycles")}}};
}

template <class Loop, pool_on<Loop> Pool>
subject alone_on(const std::string& name) {
    auto go = [](double seconds) {
        Loop loop(1);
        Pool pool(loop, resources);
        crowd all;
        loop.spawn(borrow_without_yield<Loop>(pool, all));
        return one(run(loop, all, 1, seconds));
    };
    return {name, go, cores_for(1)};
}

template <class Loop>
subject lone_yield(const std::string& name) {
    auto go = [](double seconds) {
        Loop loop(1);
        crowd all;
        loop.spawn(only_yield(loop, all));
        return one(run(loop, all, 1, seconds));
    };
    return {name, go, cores_for(1)};
}

subject lone_callback(const std::string& name) {
    auto go = [](double seconds) {
        return one(run_callbacks(1, callback_borrower::hold::shortly, 1, seconds));
    };
    return {name, go, cores_for(1)};
}

/// What the awaited forms are measured by.
subject blocking(const std::string& name) {
    auto go = [](double seconds) {
        cenote_pool pool(resources);
        shift done = run_crew(1, false, seconds, [&](std::size_t, const std::atomic<bool>& stop) {
            std::uint64_t cycles = 0;
            for (; !stop.load(std::memory_order_relaxed); ++cycles) cycle(pool);
            return cycles;
        });
        return one({done.per_second(), done.cores});
    };
    return {name, go, cores_for(1)};
}

workload uncontended() {
    return {.about = "one coroutine, 20 resources: acquire, release",
            .seconds = 0.3,
            .subjects =
                {
                    lone_yield<asio_loop>("Asio, only yield"),
                    lone_yield<run_queue>("own loop, only yield"),
                    blocking("cenote, blocking"),
                    alone_on<asio_loop, channel_pool>("channel, awaited"),
                    lone_callback("channel, callbacks"),
                    alone_on<asio_loop, strand_pool>("strand, awaited"),
                    alone_on<run_queue, queue_pool>("textbook, own loop"),
                    alone_on<asio_loop, cenote_on_asio>("cenote, awaited"),
                    alone_on<run_queue, cenote_on_queue>("cenote, own loop"),
                },
            .goals = {{"cenote, own loop / blocking", goal::bound::at_most, 2,
                       ratio("cenote, own loop", "cenote, blocking", "cycle")},
                      {"cenote, awaited / blocking", goal::bound::at_most, 2,
                       ratio("cenote, awaited", "cenote, blocking", "cycle")}}};
}

}  // namespace

void run_coroutines(report& into) {
    into.run("coroutines-one-thread", [] { return crowded(1); });
    into.run("coroutines-two-threads", [] { return crowded(2); });
    into.run("coroutine-uncontended", uncontended);
}

}  // namespace cenote::bench

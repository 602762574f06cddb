// W4: the cost of waiting in coroutines: many coroutines on few resources, and one without a wait.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "command.hpp"
#include "coroutine_subjects.hpp"
#include "stopwatch.hpp"
#include "subjects.hpp"
#include "thread_group.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

constexpr std::size_t resources = 20;

/// Shared by the borrowers of one run. A cycle counts if it ended before the stop.
struct run_state {
    std::atomic<bool> stop{false};
    std::atomic<std::uint64_t> cycles{0};  // of ended borrowers

    bool stopped() const { return stop.load(std::memory_order_relaxed); }
};

template <class Loop, pool_on<Loop> Pool>
typename Loop::coroutine borrow(Loop& loop, Pool& pool, run_state& all) {
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
typename Loop::coroutine borrow_without_yield(Pool& pool, run_state& all) {
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
typename Loop::coroutine only_yield(Loop& loop, run_state& all) {
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

/// Runs the spawned coroutines on `threads` threads for `seconds`.
template <class Loop>
rate run(Loop& loop, run_state& all, std::size_t threads, double seconds) {
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
subject borrowers_of(const std::string& name, std::size_t borrowers, std::size_t threads) {
    auto go = [=](double seconds) {
        Loop loop(threads);
        Pool pool(loop, resources);
        run_state all;
        for (std::size_t i = 0; i < borrowers; ++i) loop.spawn(borrow(loop, pool, all));
        loop.begin(borrowers);
        return many(run(loop, all, threads, seconds));
    };
    return {name, go, cores_for(threads)};
}

template <class Loop>
subject yields_of(const std::string& name, std::size_t borrowers, std::size_t threads) {
    auto go = [=](double seconds) {
        Loop loop(threads);
        run_state all;
        for (std::size_t i = 0; i < borrowers; ++i) loop.spawn(only_yield(loop, all));
        loop.begin(borrowers);
        return many(run(loop, all, threads, seconds));
    };
    return {name, go, cores_for(threads)};
}

/// Runs chains of callbacks instead of coroutines.
rate run_callbacks(std::size_t count, callback_borrower::hold how, std::size_t threads,
                   double seconds) {
    asio_loop loop(threads);
    channel_pool pool(loop, resources);
    run_state all;
    for (std::size_t i = 0; i < count; ++i)
        callback_borrower::start(loop, pool, how, [&all, cycles = std::uint64_t{0}]() mutable {
            if (!all.stopped()) return ++cycles, false;
            all.cycles += cycles;
            return true;
        });
    loop.begin(count);
    return run(loop, all, threads, seconds);
}

subject callbacks(const std::string& name, std::size_t borrowers, std::size_t threads) {
    auto go = [=](double seconds) {
        return many(
            run_callbacks(borrowers, callback_borrower::hold::over_a_yield, threads, seconds));
    };
    return {name, go, cores_for(threads)};
}

constexpr const char* awaited = "cenote, awaited";
constexpr const char* own_loop = "cenote, co_acquire";
constexpr const char* channel_awaited = "channel, awaited";
constexpr const char* channel_callbacks = "channel, callbacks";

/// The alternatives of a user.
const std::vector<std::string> all_peers{channel_awaited, channel_callbacks, "strand, awaited",
                                         puddle,          go_channel,        psycopg_pool};

std::vector<goal> crowded_goals(std::size_t threads) {
    using enum goal::bound;
    auto beats = [](const char* one, const char* other, double factor, const char* aim = "") {
        return goal{std::string(one) + " / " + other + aim, at_least, factor,
                    ratio(one, other, "cycles")};
    };
    if (threads == 1)
        return {beats(awaited, channel_awaited, 1.3, " (aim 1.5)"), beats(awaited, puddle, 1.2),
                beats(awaited, "strand, awaited", 4), beats(awaited, psycopg_pool, 4),
                beats(own_loop, channel_awaited, 3.5, " (aim 4)")};
    return {beats(awaited, channel_awaited, 1), beats(own_loop, puddle, 1.2)};
}

workload crowded(std::size_t borrowers, std::size_t threads, const peer_processes& peers) {
    workload w{
        .about = std::to_string(borrowers) + " coroutines on 20 resources: acquire, yield, " +
                 "release; " + std::to_string(threads) + (threads == 1 ? " thread" : " threads"),
        .seconds = 0.3,
        .subjects =
            {
                // The loops without a pool.
                yields_of<asio_loop>("Asio, only yield", borrowers, threads),
                yields_of<run_queue>("own loop, only yield", borrowers, threads),
                // Peers.
                borrowers_of<asio_loop, channel_pool>(channel_awaited, borrowers, threads),
                callbacks(channel_callbacks, borrowers, threads),
                borrowers_of<asio_loop, strand_pool>("strand, awaited", borrowers, threads),
                borrowers_of<run_queue, queue_pool>("textbook, own loop", borrowers, threads),
                borrowers_of<asio_loop, cenote_on_asio>(awaited, borrowers, threads),
                borrowers_of<run_queue, cenote_on_queue>(own_loop, borrowers, threads),
            },
        .goals = crowded_goals(threads)};
    if (threads > 1)
        w.subjects.push_back(borrowers_of<asio_loop_each, cenote_on_loops>("cenote, per_executor",
                                                                           borrowers, threads));
    std::string command =
        "w4 size=20 tasks=" + std::to_string(borrowers) + " threads=" + std::to_string(threads);
    peers.add_subjects(w, {puddle, go_channel}, command);
    // More tasks would take it minutes.
    if (borrowers <= 1000) peers.add_subjects(w, {psycopg_pool}, command);
    return w;
}

/// The memory of waiting coroutines, measured by a separate program that counts allocations.
workload memory(const std::string& self, const peer_processes& peers) {
    std::filesystem::path counter =
        std::filesystem::path(self).parent_path() / "cenote-bench-memory";
    workload w{.about =
                   "10 000 coroutines wait for one of 20 resources: memory of each, including "
                   "its frame",
               .subjects = {},
               .goals = {},
               .exact = true};
    for (const char* name :
         {own_loop, awaited, channel_awaited, "strand, awaited", "textbook, own loop"})
        w.subjects.push_back({name, [=, name = std::string(name)](double) {
                                  return metrics_of({counter.string(), name});
                              }});
    peers.add_subjects(w, {puddle, go_channel, psycopg_pool}, "w4-memory size=20 tasks=10000");
    using enum goal::bound;
    for (const char* one : {own_loop, awaited}) {
        // Not zero, because the loop's queue may grow.
        w.goals.push_back({std::string(one) + ": allocations of a wait", at_most, 0.01,
                           value_of(one, "allocations of a wait")});
        w.goals.push_back({std::string("bytes, ") + one + " / the best", at_most, 1,
                           ratio_to_best(one, all_peers, "bytes", best::smallest)});
    }
    return w;
}

template <class Loop, pool_on<Loop> Pool>
subject alone_on(const std::string& name) {
    auto go = [](double seconds) {
        Loop loop(1);
        Pool pool(loop, resources);
        run_state all;
        loop.spawn(borrow_without_yield<Loop>(pool, all));
        return one(run(loop, all, 1, seconds));
    };
    return {name, go, cores_for(1)};
}

template <class Loop>
subject lone_yield(const std::string& name) {
    auto go = [](double seconds) {
        Loop loop(1);
        run_state all;
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

/// The blocking acquire, for comparison.
subject blocking(const std::string& name) {
    auto go = [](double seconds) {
        cenote_pool pool(resources);
        group_result done = repeat_on_threads(1, false, seconds, [&](std::size_t) { cycle(pool); });
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
                    alone_on<asio_loop, cenote_on_asio>(awaited),
                    alone_on<run_queue, cenote_on_queue>(own_loop),
                },
            .goals = {{"cenote, co_acquire / blocking", goal::bound::at_most, 2,
                       ratio(own_loop, "cenote, blocking", "cycle")},
                      {"cenote, awaited / blocking", goal::bound::at_most, 2,
                       ratio(awaited, "cenote, blocking", "cycle")}}};
}

}  // namespace

void run_coroutines(report& into, const peer_processes& peers) {
    for (std::size_t threads : {1u, 2u})
        for (std::size_t borrowers : {1'000u, 10'000u, 100'000u})
            into.run("w4-" + std::to_string(borrowers) + "-on-" + std::to_string(threads),
                     [&] { return crowded(borrowers, threads, peers); });
    into.run("w4-memory", [&] { return memory(into.how().self, peers); });
    into.run("w4-uncontended", uncontended);
}

}  // namespace cenote::bench

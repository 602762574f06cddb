// W5: many simultaneous timeouts: ten thousand coroutines wait for a resource and are refused.
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <cstddef>
#include <future>
#include <latch>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "asio_peers.hpp"
#include "cenote/asio.hpp"
#include "cenote/coroutine.hpp"
#include "peers.hpp"
#include "stopwatch.hpp"
#include "subjects.hpp"
#include "support/task.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::size_t waiters = 10'000;
constexpr auto timeout = 50ms;
constexpr auto exhausted = std::size_t{20};

/// Counts refusals, and records the latest one.
class refusal_count {
public:
    void refused(clock::time_point began) {
        latest_ = std::max(latest_, clock::now() - began - timeout);
        ++count_;
    }
    bool all() const { return count_ == waiters; }

    measured result(const stopwatch& watch) const {
        double cpu = watch.cores() * watch.seconds() * 1e3;
        double late = std::chrono::duration<double, std::milli>(latest_).count();
        return {.metrics = {{"latest", late, "ms late"}, {"cpu", cpu, "ms"}},
                .cores = watch.cores()};
    }

private:
    clock::duration latest_{};
    std::size_t count_ = 0;
};

/// A loop that sleeps when no coroutine is ready.
class sleeping_queue {
public:
    void post(std::coroutine_handle<> ready) {
        std::lock_guard lock(mutex_);
        ready_.push_back(ready);
        if (ready_.size() == 1) came_.notify_one();
    }
    template <class Done>
    void run_until(Done done) {
        std::vector<std::coroutine_handle<>> taken;
        while (!done()) {
            {
                std::unique_lock lock(mutex_);
                came_.wait(lock, [&] { return !ready_.empty(); });
                taken.swap(ready_);
            }
            for (std::coroutine_handle<> h : taken) h.resume();
            taken.clear();
        }
    }

private:
    std::mutex mutex_;
    std::condition_variable came_;
    std::vector<std::coroutine_handle<>> ready_;
};

support::task wait_on_queue(pool<resource>& from, sleeping_queue& queue, refusal_count& all) {
    auto began = clock::now();
    std::error_code error;
    auto got = co_await from.co_acquire({.timeout = timeout}, error)
                   .resumed_by([at = &queue](std::coroutine_handle<> ready) { at->post(ready); });
    if (error) all.refused(began);
}

options full() { return {.max = exhausted, .line_max = 2 * waiters}; }

measured on_queue(double) {
    cenote_pool all_taken(exhausted, full());
    std::vector<lease<resource>> taken;
    for (std::size_t i = 0; i < exhausted; ++i) taken.push_back(all_taken.pool.acquire());
    sleeping_queue loop;
    refusal_count all;
    std::vector<support::task> ready;
    for (std::size_t i = 0; i < waiters; ++i)
        ready.push_back(wait_on_queue(all_taken.pool, loop, all));
    stopwatch watch;
    for (support::task& each : ready) each.start();
    loop.run_until([&] { return all.all(); });
    return all.result(watch);
}

/// Waits in coroutines of Asio. `acquire` gets a token that returns errors instead of throwing.
template <class Acquire>
measured on_asio(asio::io_context& io, Acquire acquire) {
    refusal_count all;
    auto wait = [&]() -> asio::awaitable<void> {
        auto began = clock::now();
        auto [error, got] = co_await acquire(asio::as_tuple(asio::use_awaitable));
        if (error) all.refused(began);
        if (all.all()) io.stop();
    };
    for (std::size_t i = 0; i < waiters; ++i) asio::co_spawn(io, wait, asio::detached);
    stopwatch watch;
    io.restart();
    io.run();
    return all.result(watch);
}

measured on_asio_loop(double) {
    asio::io_context io(1);
    cenote_pool all_taken(exhausted, full());
    std::vector<lease<resource>> taken;
    for (std::size_t i = 0; i < exhausted; ++i) taken.push_back(all_taken.pool.acquire());
    return on_asio(io,
                   [&](auto token) { return all_taken.pool.async_acquire_for(timeout, token); });
}

measured without_a_thread(double) {
    asio::io_context io(1);
    pool<resource> all_taken{io, []() -> asio::awaitable<resource> { co_return resource{}; },
                             full()};
    std::vector<lease<resource>> taken;
    auto take_all = [&]() -> asio::awaitable<void> {
        while (taken.size() < exhausted) {
            auto one = co_await all_taken.async_acquire(asio::use_awaitable);
            taken.push_back(std::move(one));
        }
    };
    auto done = asio::co_spawn(io, take_all, asio::use_future);
    while (done.wait_for(0s) != std::future_status::ready) io.run_one();
    return on_asio(io, [&](auto token) { return all_taken.async_acquire_for(timeout, token); });
}

/// The cost of the coroutines alone: each starts, yields once, and ends.
measured nothing_but_coroutines(double) {
    asio::io_context io(1);
    std::size_t ended = 0;
    auto yield = [&]() -> asio::awaitable<void> {
        co_await asio::post(asio::use_awaitable);
        ++ended;
    };
    for (std::size_t i = 0; i < waiters; ++i) asio::co_spawn(io, yield, asio::detached);
    stopwatch watch;
    io.run();
    double cpu = watch.cores() * watch.seconds() * 1e3;
    return {.metrics = {{"cpu", ended == waiters ? cpu : 0, "ms"}}, .cores = watch.cores()};
}

measured timer_each(double) {
    asio_loop loop(1);
    strand_pool nothing(loop, 0);
    return on_asio(loop.io, [&](auto token) { return nothing.async_acquire(timeout, token); });
}

/// Asio's own timeout: the first of a lease and a timer.
measured channel_or_timer(double) {
    using namespace asio::experimental::awaitable_operators;
    asio_loop loop(1);
    channel_pool nothing(loop, 0);
    refusal_count all;
    auto wait = [&]() -> asio::awaitable<void> {
        auto began = clock::now();
        asio::steady_timer deadline(loop.io, timeout);
        auto first = co_await (nothing.acquire() || deadline.async_wait(asio::use_awaitable));
        if (first.index() == 1) all.refused(began);
        if (all.all()) loop.io.stop();
    };
    for (std::size_t i = 0; i < waiters; ++i) asio::co_spawn(loop.io, wait, asio::detached);
    stopwatch watch;
    loop.io.run();
    return all.result(watch);
}

workload storm(const peer_processes& peers) {
    workload w{.about = "10 000 coroutines wait 50 ms for an exhausted pool",
               .seconds = 0.1,
               .subjects = {{"Asio, only yield", nothing_but_coroutines},
                            {"strand, a timer each", timer_each},
                            {"channel or timer", channel_or_timer},
                            {"cenote, co_acquire", on_queue},
                            {"cenote, awaited", on_asio_loop},
                            {"cenote, no thread", without_a_thread}},
               .goals = {}};
    peers.add_subjects(w, {puddle, go_channel, psycopg_pool}, "w5 size=20 tasks=10000 timeout=50");
    const std::vector<std::string> all_peers{"strand, a timer each", "channel or timer", puddle,
                                             go_channel, psycopg_pool};
    for (const char* one : {"cenote, co_acquire", "cenote, awaited", "cenote, no thread"}) {
        w.goals.push_back({std::string(one) + ": ms after the deadline", goal::bound::at_most, 5,
                           value_of(one, "latest")});
        w.goals.push_back({std::string("CPU, ") + one + " / the best", goal::bound::at_most, 0.25,
                           ratio_to_best(one, all_peers, "cpu", best::smallest)});
    }
    return w;
}

/// Ten thousand threads would only measure how the kernel wakes them.
constexpr std::size_t threads_waiting = 1'000;

template <class Pool>
measured refused_threads(Pool& empty) {
    std::vector<clock::duration> late(threads_waiting);
    std::latch ready(threads_waiting + 1);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < threads_waiting; ++i)
        threads.emplace_back([&, i] {
            ready.arrive_and_wait();
            auto began = clock::now();
            empty.is_refused_after(timeout);
            late[i] = clock::now() - began - timeout;
        });
    stopwatch watch;
    ready.arrive_and_wait();
    for (std::thread& t : threads) t.join();
    double latest = std::chrono::duration<double, std::milli>(std::ranges::max(late)).count();
    return {.metrics = {{"latest", latest, "ms late"},
                        {"cpu", watch.cores() * watch.seconds() * 1e3, "ms"}},
            .cores = watch.cores()};
}

struct exhausted_cenote {
    exhausted_cenote() : all(1, {.max = 1, .line_max = 2 * threads_waiting}) {}
    bool is_refused_after(std::chrono::milliseconds at_most) {
        std::error_code error;
        return !all.pool.acquire({.timeout = at_most}, error);
    }

    cenote_pool all;
    lease<resource> taken = all.acquire();
};

workload storm_of_threads(const peer_processes& peers) {
    workload w{.about = "1 000 threads wait 50 ms for an exhausted pool", .seconds = 0.1};
    w.subjects.push_back({"cenote", [](double) {
                              exhausted_cenote pool;
                              return refused_threads(pool);
                          }});
    for_each_peer([&]<class Pool>(const char* name) {
        if constexpr (requires(Pool& p) { p.is_refused_after(timeout); })
            w.subjects.push_back({name, [](double) {
                                      Pool pool(1);
                                      auto taken = pool.acquire();
                                      return refused_threads(pool);
                                  }});
    });
    peers.add_subjects(w, {hikaricp, commons_pool2, r2d2}, "w5 size=1 tasks=1000 timeout=50");
    return w;
}

}  // namespace

void run_storm(report& into, const peer_processes& peers) {
    into.run("w5-coroutines", [&] { return storm(peers); });
    into.run("w5-threads", [&] { return storm_of_threads(peers); });
}

}  // namespace cenote::bench

// A real server that fails in six ways: how late waiting threads time out, and how soon the pool
// notices the server's return. Correctness is tested with a stopped clock
// (tests/cenote/pool_outage_live.cpp); this measures the delays of the machine.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cenote/pool.hpp"
#include "support/backend.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

using support::backend;
using support::backend_connector;
using clock = std::chrono::steady_clock;
using instant = clock::time_point;
using namespace std::chrono_literals;
using connection_pool = pool<support::descriptor>;

constexpr auto acquire_timeout = 1s;
constexpr auto connector_timeout = 1s;
constexpr std::size_t callers = 500;
constexpr auto apart = 2ms;

struct way {
    const char* name;
    void (backend::*down)();
    bool filled = false;  // the pool has connections before the failure
};

constexpr way ways[] = {
    {"refused", &backend::refuse},
    {"black hole on connect", &backend::vanish},
    {"black hole when established", &backend::vanish, true},
    {"accepts and never speaks", &backend::fall_silent},
    {"stopped", &backend::stop, true},
    {"open errors", &backend::complain},
};

double milliseconds(clock::duration d) {
    return std::chrono::duration<double, std::milli>(d).count();
}

void fill(connection_pool& pool) {
    std::vector<lease<support::descriptor>> all;
    for (int i = 0; i < 10; ++i) all.push_back(pool.acquire_for(30s));
}

/// Calls `wait(now)` on many threads, started `apart` from each other, and measures the longest
/// delay beyond the timeout.
template <class Wait>
measured latest(Wait wait) {
    std::vector<clock::duration> late(callers);
    instant first = clock::now() + 200ms;
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < callers; ++i)
        threads.emplace_back([&wait, &result = late[i], at = first + i * apart] {
            std::this_thread::sleep_until(at);
            instant began = clock::now();
            wait(began);
            result = clock::now() - began - acquire_timeout;
        });
    threads.clear();
    return {.metrics = {{"late", milliseconds(std::ranges::max(late)), "ms"}}};
}

measured deadlines(const way& how) {
    backend server;
    connection_pool pool{backend_connector{server.port(), connector_timeout},
                         {.max = 10, .acquire_timeout = acquire_timeout, .probe_after_idle = 0ns}};
    if (how.filled) fill(pool);
    (server.*how.down)();
    return latest([&](instant) {
        std::error_code error;
        auto none = pool.acquire({}, error);
    });
}

/// Waits as long as the acquires, without a pool, for comparison.
measured sleeping_threads() {
    return latest([](instant began) { std::this_thread::sleep_until(began + acquire_timeout); });
}

/// The time from the server's return to the first lease.
measured recovery(const way& how) {
    backend server;
    connection_pool pool{backend_connector{server.port(), connector_timeout},
                         {.max = 10, .probe_after_idle = 0ns}};
    if (how.filled) fill(pool);
    (server.*how.down)();
    std::atomic<instant> first{instant::max()};
    std::vector<std::jthread> waiting;
    for (int i = 0; i < 5; ++i)
        waiting.emplace_back([&] {
            auto lease = pool.acquire_for(30s);
            instant now = clock::now();
            for (instant seen = first; now < seen && !first.compare_exchange_weak(seen, now);) {
            }
        });
    std::this_thread::sleep_for(2330ms);
    instant back = clock::now();
    server.come_back();
    waiting.clear();
    return {.metrics = {{"return", milliseconds(first.load() - back), "ms"}}};
}

workload late() {
    workload w{.about = "a server is down, 500 threads wait one second: ms after the deadline",
               .exact = true};
    for (const way& each : ways) {
        w.subjects.push_back({each.name, [&each](double) { return deadlines(each); }});
        w.goals.push_back({std::string(each.name) + ": ms after the deadline", goal::bound::at_most,
                           50, value_of(each.name, "late")});
    }
    w.subjects.push_back({"threads that sleep", [](double) { return sleeping_threads(); }});
    return w;
}

workload back() {
    workload w{.about = "a server comes back after 2.3 s: ms until a waiter is served",
               .exact = true};
    for (const way& each : ways) {
        w.subjects.push_back({each.name, [&each](double) { return recovery(each); }});
        w.goals.push_back({std::string(each.name) + ": ms until a waiter is served",
                           goal::bound::at_most, 250, value_of(each.name, "return")});
    }
    return w;
}

}  // namespace

void run_outages(report& into) {
    into.run("outage-deadlines", late);
    into.run("outage-return", back);
}

}  // namespace cenote::bench

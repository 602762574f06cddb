// W3: throughput, wait times and fairness with more threads than resources.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "cenote/metrics.hpp"
#include "cenote/observer.hpp"
#include "peers.hpp"
#include "stopwatch.hpp"
#include "subjects.hpp"
#include "thread_group.hpp"
#include "workloads.hpp"

namespace cenote::bench {

namespace {

using namespace std::chrono_literals;

/// Keeps the processor busy for about a microsecond.
void work_a_microsecond() {
    static const auto microsecond = static_cast<std::uint64_t>(1000 / nanoseconds_per_tick());
    for (std::uint64_t began = ticks(); ticks() - began < microsecond;) {
    }
}

/// As long as a query; the thread sleeps.
void sleep_like_a_query() { std::this_thread::sleep_for(100us); }

template <class Pool>
measured run_contended(Pool& pool, std::size_t threads, double seconds, void (*hold)()) {
    timed_result done = run_timed(
        threads, seconds, [&](std::size_t) { return pool.acquire(); },
        [&](auto& lease, std::size_t) {
            ++lease->uses;
            hold();
        });
    measured m = done.as_measured("cycles");
    m.metrics.push_back({"cores", done.cores, ""});
    return m;
}

/// How a resource is used while it is leased.
struct holding {
    void (*spend)();
    const char* for_peer_processes;
};
constexpr holding not_at_all{[] {}, " hold=0 asleep=0"};
constexpr holding a_busy_microsecond{work_a_microsecond, " hold=1 asleep=0"};
constexpr holding asleep{sleep_like_a_query, " hold=100 asleep=1"};

constexpr std::size_t resources = 4;

/// `cores_needed`: fewer for pools that put threads to sleep.
workload contended(std::size_t threads, cenote::fairness fairness, holding use, double cores_needed,
                   const peer_processes& peers) {
    workload w{.seconds = 0.8};
    auto ours = std::make_shared<cenote_pool>(resources, options{.fairness = fairness});
    w.subjects.push_back({"cenote",
                          [=](double s) { return run_contended(*ours, threads, s, use.spend); },
                          cores_needed});
    for_each_peer([&]<class Pool>(const char* name) {
        auto pool = std::make_shared<Pool>(resources);
        w.subjects.push_back(
            {name, [=](double s) { return run_contended(*pool, threads, s, use.spend); }});
    });
    peers.add_subjects(w, {hikaricp, commons_pool2, puddle, go_channel, r2d2, psycopg_pool},
                       "w3 size=4 threads=" + std::to_string(threads) + use.for_peer_processes);
    return w;
}

const std::vector<std::string> all_peers{textbook, semaphore,   soci_,    poco,
                                         tbb_,     moodycamel_, hikaricp, commons_pool2,
                                         puddle,   go_channel,  r2d2};

workload long_holds(const peer_processes& peers) {
    workload w = contended(32, options{}.fairness, asleep, 0, peers);
    w.about = "32 threads on 4 resources, each held for 100 µs asleep, like a network round trip";
    auto strict = std::make_shared<cenote_pool>(resources, options{.fairness = fairness::strict});
    w.subjects.insert(
        w.subjects.begin() + 1,
        {"cenote, strict", [=](double s) { return run_contended(*strict, 32, s, asleep.spend); }});
    w.goals = {
        {"throughput, cenote / the best", goal::bound::at_least, 0.95,
         ratio_to_best("cenote", all_peers, "cycles", best::largest)},
        {"least / most served", goal::bound::at_least, 0.95, value_of("cenote", "least/most")}};
    for (const char* peer : {hikaricp, soci_, r2d2, poco, textbook})
        w.goals.push_back({std::string("p99 wait, cenote / ") + peer, goal::bound::at_most, 0.25,
                           ratio("cenote", peer, "wait p99")});
    return w;
}

workload short_holds(std::size_t threads, holding use, const std::string& about,
                     const peer_processes& peers) {
    constexpr double cores_needed = 1.8;
    workload w = contended(threads, fairness::bounded, use, cores_needed, peers);
    w.about = std::to_string(threads) + " threads on 4 resources, " + about + "; bounded fairness";
    // Its waits are due to the threads' time slices only: a lower bound for every pool.
    w.subjects.push_back({"no pool", [=](double s) {
                              no_pool each_its_own;
                              return run_contended(each_its_own, threads, s, use.spend);
                          }});
    w.goals = {
        {"throughput, cenote / the best", goal::bound::at_least, 0.75,
         ratio_to_best("cenote", all_peers, "cycles", best::largest)},
        {"least / most served", goal::bound::at_least, 0.6, value_of("cenote", "least/most")},
        {"longest wait, cenote / the best", goal::bound::at_most, 1,
         ratio_to_best("cenote", all_peers, "wait longest", best::smallest)}};
    return w;
}

/// A minimal observer: counts events.
class listener final : public observer {
public:
    explicit listener(bool every_lease) : every_lease_(every_lease) {}

    void on_event(const event& what) override {
        counts_[static_cast<std::size_t>(what.kind)].fetch_add(1, std::memory_order_relaxed);
    }
    bool wants(event_kind kind) const override {
        return every_lease_ || (kind != event_kind::acquired && kind != event_kind::released);
    }

private:
    bool every_lease_;
    std::array<std::atomic<std::uint64_t>, event_kind_count> counts_{};
};

/// A pool with an observer, whose metrics are formatted 20 times a second: a few hundred times as
/// often as for a Prometheus.
struct watched_pool {
    watched_pool(fairness order, bool every_lease)
        : pool(resources,
               options{.fairness = order, .observers = {std::make_shared<listener>(every_lease)}}),
          entry(all.add(pool.pool.control())) {}

    lease<resource> acquire() { return pool.acquire(); }

    measured run(std::size_t threads, double seconds, void (*hold)()) {
        std::jthread scraper([this](const std::stop_token& stop) {
            for (; !stop.stop_requested(); std::this_thread::sleep_for(50ms)) {
                std::string text = all.prometheus();
                written += text.size();
            }
        });
        return run_contended(*this, threads, seconds, hold);
    }

    cenote_pool pool;
    metrics all;
    metrics::entry entry;
    std::uint64_t written = 0;
};

constexpr const char* unwatched = "without observer";
constexpr const char* watched = "metrics and an observer";
constexpr const char* watched_closely = "an observer of every lease";

/// The cost of metrics and observers.
workload observed(std::size_t threads, fairness order, holding use, const std::string& about) {
    workload w{.about = std::to_string(threads) + " threads on 4 resources, " + about,
               .seconds = 0.8};
    auto alone = std::make_shared<cenote_pool>(resources, options{.fairness = order});
    w.subjects.push_back(
        {unwatched, [=](double s) { return run_contended(*alone, threads, s, use.spend); }});
    for (bool closely : {false, true}) {
        auto pool = std::make_shared<watched_pool>(order, closely);
        w.subjects.push_back({closely ? watched_closely : watched,
                              [=](double s) { return pool->run(threads, s, use.spend); }});
    }
    w.goals = {{"throughput, metrics and an observer / without observer", goal::bound::at_least,
                0.95, ratio(watched, unwatched, "cycles")}};
    return w;
}

/// The effect of `turns` and of `bypass_for`, up to 10 ms; this workload chose the default.
workload bypasses(std::size_t threads, holding use, const std::string& about) {
    workload w{.about = std::to_string(threads) + " threads on 4 resources, " + about +
                        "; how long newcomers may overtake the head",
               .seconds = 0.8};
    auto add = [&](const std::string& name, const options& how) {
        auto pool = std::make_shared<cenote_pool>(resources, how);
        w.subjects.push_back(
            {name, [=](double s) { return run_contended(*pool, threads, s, use.spend); }});
    };
    auto barging = std::make_shared<textbook_pool<padded_resource>>(resources);
    w.subjects.push_back(
        {textbook, [=](double s) { return run_contended(*barging, threads, s, use.spend); }});
    add("strict", {.fairness = fairness::strict});
    add("turns", {.fairness = fairness::turns});
    for (int microseconds : {200, 500, 1'000, 2'000, 5'000, 10'000})
        add("bypass_for " + std::to_string(microseconds) + " µs",
            {.fairness = fairness::bounded, .bypass_for = std::chrono::microseconds(microseconds)});
    return w;
}

}  // namespace

void run_contention(report& into, const peer_processes& peers) {
    into.run("w3-bypass-32-asleep-100us",
             [] { return bypasses(32, asleep, "each held for 100 µs asleep"); });
    into.run("w3-bypass-8-hold-1us",
             [] { return bypasses(8, a_busy_microsecond, "each held for 1 µs busy"); });
    into.run("w3-32-asleep-100us", [&] { return long_holds(peers); });
    for (std::size_t threads : {8u, 32u}) {
        std::string name = "w3-" + std::to_string(threads);
        into.run(name + "-hold-0",
                 [&] { return short_holds(threads, not_at_all, "released at once", peers); });
        into.run(name + "-hold-1us", [&] {
            return short_holds(threads, a_busy_microsecond, "each held for 1 µs busy", peers);
        });
    }
    into.run("watched-32-asleep-100us", [] {
        return observed(32, options{}.fairness, asleep, "each held for 100 µs asleep");
    });
    into.run("watched-8-hold-1us", [] {
        return observed(8, fairness::bounded, a_busy_microsecond,
                        "each held for 1 µs busy; bounded");
    });
    into.run("watched-2-hold-0", [] {
        return observed(2, options{}.fairness, not_at_all, "released at once: the fast lane");
    });
}

}  // namespace cenote::bench

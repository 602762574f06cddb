// What waiting is like when there are more threads than resources.
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
#include "crew.hpp"
#include "peers.hpp"
#include "stopwatch.hpp"
#include "subjects.hpp"
#include "waits.hpp"
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

/// As long as a query: the thread gives its processor away.
void wait_for_an_answer() { std::this_thread::sleep_for(100us); }

template <class Pool>
measured run_crowd(Pool& pool, std::size_t threads, double seconds, void (*hold)()) {
    std::vector<waits> each(threads);
    shift done =
        run_crew(threads, false, seconds, [&](std::size_t index, const std::atomic<bool>& stop) {
            std::uint64_t cycles = 0;
            for (; !stop.load(std::memory_order_relaxed); ++cycles) {
                std::uint64_t asked = ticks();
                auto lease = pool.acquire();
                each[index].record(ticks() - asked);
                ++lease->uses;
                hold();
            }
            return cycles;
        });
    waits all;
    for (const waits& w : each) all.add(w);
    auto microseconds = [](std::uint64_t t) {
        return static_cast<double>(t) * nanoseconds_per_tick() * 1e-3;
    };
    auto [least, most] = std::minmax_element(done.served.begin(), done.served.end());
    double evenness = static_cast<double>(*least) / static_cast<double>(std::max(*most, 1ul));
    return {.metrics = {{"cycles", done.per_second() * 1e-3, "k/s"},
                        {"wait p50", microseconds(all.quantile(0.5)), "us"},
                        {"wait p99", microseconds(all.quantile(0.99)), "us"},
                        {"wait p99.9", microseconds(all.quantile(0.999)), "us"},
                        {"wait longest", microseconds(all.longest()), "us"},
                        {"least/most", evenness, ""},
                        {"cores", done.cores, ""}},
            .cores = done.cores};
}

/// How long, and how, a resource is held.
struct holding {
    void (*spend)();
    const char* for_guests;
};
constexpr holding not_at_all{[] {}, " hold=0 asleep=0"};
constexpr holding a_busy_microsecond{work_a_microsecond, " hold=1 asleep=0"};
constexpr holding asleep{wait_for_an_answer, " hold=100 asleep=1"};

constexpr std::size_t resources = 4;

/// Everybody on so many resources. Pools that put threads to sleep need fewer processors.
workload crowds(std::size_t threads, cenote::fairness fairness, holding held, double cores_needed,
                const guests& others) {
    workload w{.seconds = 0.8};
    auto ours = std::make_shared<cenote_pool>(resources, options{.fairness = fairness});
    w.subjects.push_back({"cenote",
                          [=](double s) { return run_crowd(*ours, threads, s, held.spend); },
                          cores_needed});
    meet_peers([&]<class Pool>(const char* name) {
        auto pool = std::make_shared<Pool>(resources);
        w.subjects.push_back(
            {name, [=](double s) { return run_crowd(*pool, threads, s, held.spend); }});
    });
    others.join(w, {hikaricp, commons_pool2, puddle, go_channel, r2d2, psycopg_pool},
                "w3 size=4 threads=" + std::to_string(threads) + held.for_guests);
    return w;
}

const std::vector<std::string> all_peers{textbook, semaphore,   soci_,    poco,
                                         tbb_,     moodycamel_, hikaricp, commons_pool2,
                                         puddle,   go_channel,  r2d2};

workload long_holds(const guests& others) {
    workload w = crowds(32, fairness::strict, asleep, 0, others);
    w.about = "32 threads on 4 resources, each held for 100 us asleep, like a network round trip";
    w.goals = {
        {"throughput, cenote / the best", goal::bound::at_least, 0.95,
         ratio_to_best("cenote", all_peers, "cycles", best::largest)},
        {"least / most served", goal::bound::at_least, 0.95, value_of("cenote", "least/most")}};
    for (const char* peer : {hikaricp, soci_, r2d2, poco, textbook})
        w.goals.push_back({std::string("p99 wait, cenote / ") + peer, goal::bound::at_most, 0.25,
                           ratio("cenote", peer, "wait p99")});
    return w;
}

workload short_holds(std::size_t threads, holding held, const std::string& about,
                     const guests& others) {
    constexpr double cores_needed = 1.8;
    workload w = crowds(threads, fairness::bounded, held, cores_needed, others);
    w.about = std::to_string(threads) + " threads on 4 resources, " + about + "; bounded fairness";
    // Its waits are what the threads lose to each other's time slices: nobody can promise less.
    w.subjects.push_back({"no pool", [=](double s) {
                              no_pool each_its_own;
                              return run_crowd(each_its_own, threads, s, held.spend);
                          }});
    w.goals = {
        {"throughput, cenote / the best", goal::bound::at_least, 0.75,
         ratio_to_best("cenote", all_peers, "cycles", best::largest)},
        {"least / most served", goal::bound::at_least, 0.6, value_of("cenote", "least/most")},
        {"longest wait, cenote / the best", goal::bound::at_most, 1,
         ratio_to_best("cenote", all_peers, "wait longest", best::smallest)}};
    return w;
}

/// Hears what happens, and does what any observer has to do at least.
class listener final : public observer {
public:
    explicit listener(bool hears_of_leases) : hears_of_leases_(hears_of_leases) {}

    void on_event(const event& what) override {
        heard_[static_cast<std::size_t>(what.kind)].fetch_add(1, std::memory_order_relaxed);
    }
    bool wants(event_kind kind) const override {
        return hears_of_leases_ || (kind != event_kind::acquired && kind != event_kind::released);
    }

private:
    bool hears_of_leases_;
    std::array<std::atomic<std::uint64_t>, event_kind_count> heard_{};
};

/// A pool that somebody listens to, and whose metrics are written down 20 times a second: some
/// hundred times as often as a Prometheus would.
struct watched_pool {
    watched_pool(fairness order, bool hears_of_leases)
        : pool(resources, options{.fairness = order,
                                  .observers = {std::make_shared<listener>(hears_of_leases)}}),
          entry(all.add(pool.pool.control())) {}

    lease<thing> acquire() { return pool.acquire(); }

    measured run(std::size_t threads, double seconds, void (*hold)()) {
        std::jthread scraper([this](const std::stop_token& stop) {
            for (; !stop.stop_requested(); std::this_thread::sleep_for(50ms)) {
                std::string text = all.prometheus();
                written += text.size();
            }
        });
        return run_crowd(*this, threads, seconds, hold);
    }

    cenote_pool pool;
    metrics all;
    metrics::entry entry;
    std::uint64_t written = 0;
};

constexpr const char* unwatched = "nobody looks";
constexpr const char* watched = "metrics and an observer";
constexpr const char* watched_closely = "an observer of every lease";

/// What it costs to be looked at.
workload observed(std::size_t threads, fairness order, holding held, const std::string& about) {
    workload w{.about = std::to_string(threads) + " threads on 4 resources, " + about,
               .seconds = 0.8};
    auto alone = std::make_shared<cenote_pool>(resources, options{.fairness = order});
    w.subjects.push_back(
        {unwatched, [=](double s) { return run_crowd(*alone, threads, s, held.spend); }});
    for (bool closely : {false, true}) {
        auto pool = std::make_shared<watched_pool>(order, closely);
        w.subjects.push_back({closely ? watched_closely : watched,
                              [=](double s) { return pool->run(threads, s, held.spend); }});
    }
    w.goals = {{"throughput, metrics and an observer / nobody looks", goal::bound::at_least, 0.95,
                ratio(watched, unwatched, "cycles")}};
    return w;
}

/// Turns, and what `bypass_for` does, from strict order to 10 ms: how the default was chosen.
workload bypasses(std::size_t threads, holding held, const std::string& about) {
    workload w{.about = std::to_string(threads) + " threads on 4 resources, " + about +
                        "; how long newcomers may overtake the head",
               .seconds = 0.8};
    auto add = [&](const std::string& name, const options& how) {
        auto pool = std::make_shared<cenote_pool>(resources, how);
        w.subjects.push_back(
            {name, [=](double s) { return run_crowd(*pool, threads, s, held.spend); }});
    };
    auto barging = std::make_shared<textbook_pool<lone_thing>>(resources);
    w.subjects.push_back(
        {textbook, [=](double s) { return run_crowd(*barging, threads, s, held.spend); }});
    add("strict", {.fairness = fairness::strict});
    add("turns", {.fairness = fairness::turns});
    for (int microseconds : {200, 500, 1'000, 2'000, 5'000, 10'000})
        add("bypass_for " + std::to_string(microseconds) + " us",
            {.fairness = fairness::bounded, .bypass_for = std::chrono::microseconds(microseconds)});
    return w;
}

}  // namespace

void run_contention(report& into, const guests& others) {
    into.run("w3-bypass-32-asleep-100us",
             [] { return bypasses(32, asleep, "each held for 100 us asleep"); });
    into.run("w3-bypass-8-hold-1us",
             [] { return bypasses(8, a_busy_microsecond, "each held for 1 us busy"); });
    into.run("w3-32-asleep-100us", [&] { return long_holds(others); });
    for (std::size_t threads : {8u, 32u}) {
        std::string name = "w3-" + std::to_string(threads);
        into.run(name + "-hold-0",
                 [&] { return short_holds(threads, not_at_all, "given back at once", others); });
        into.run(name + "-hold-1us", [&] {
            return short_holds(threads, a_busy_microsecond, "each held for 1 us busy", others);
        });
    }
    into.run("watched-32-asleep-100us",
             [] { return observed(32, fairness::strict, asleep, "each held for 100 us asleep"); });
    into.run("watched-8-hold-1us", [] {
        return observed(8, fairness::bounded, a_busy_microsecond,
                        "each held for 1 us busy; bounded");
    });
    into.run("watched-2-hold-0", [] {
        return observed(2, fairness::strict, not_at_all, "given back at once: the fast lane");
    });
}

}  // namespace cenote::bench

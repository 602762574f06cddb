// More demand than capacity: priorities, and who is refused early.
#include <algorithm>
#include <cstdio>
#include <queue>
#include <vector>

#include "core/machine_dialogue.hpp"

namespace cenote::core {
namespace {

// Priorities.

std::string ask(dialogue& d, std::uint64_t who, priority rank, duration timeout = forever) {
    return d.ask({.deadline = after(d.now, timeout), .cookie = who, .rank = rank});
}

TEST(machine_priority, serves_the_higher_first_and_equals_in_order) {
    dialogue d({.max = 1});
    d.fill(1);
    d.ask(1);
    ask(d, 2, priority::low);
    ask(d, 3, priority::normal);
    ask(d, 4, priority::high);
    ask(d, 5, priority::normal);
    ask(d, 6, priority::reserved);
    ask(d, 7, priority::high);
    for (const char* next : {"6", "4", "7", "3", "5", "2"}) {
        d.release(0);
        EXPECT_EQ(d.said(), std::string(next) + " gets 0");
    }
}

TEST(machine_priority, is_a_head_start_only) {
    dialogue d({.max = 1, .head_start = 100ms});
    d.fill(1);
    d.ask(1);
    ask(d, 2, priority::low);
    d.pass(100ms);
    ask(d, 3, priority::normal);  // came 100 ms later: the same turn, the later ticket
    d.pass(99ms);
    ask(d, 4, priority::high);  // 199 ms later than the first: before it
    d.pass(2ms);
    ask(d, 5, priority::high);  // 201 ms later: behind it
    for (const char* next : {"4", "2", "3", "5"}) {
        d.release(0);
        EXPECT_EQ(d.said(), std::string(next) + " gets 0");
    }
}

// A stream of important ones that never ends does not starve the others.
TEST(machine_priority, starves_no_waiter) {
    dialogue d({.max = 1, .line_max = 100'000, .head_start = 1s});
    d.fill(1);
    d.ask(1);
    ask(d, 2, priority::low);
    instant came = d.now;
    std::uint64_t who = 3;
    for (; !d.holds(2) && who < 100'000; ++who) {
        ask(d, who, priority::high);
        ask(d, ++who, priority::high);
        d.pass(1ms);
        d.release(0);
    }
    EXPECT_TRUE(d.holds(2));
    // Each waiter that came within two head starts was before it: 4000, each served in 1 ms.
    EXPECT_NEAR(std::chrono::duration<double>(d.now - came).count(), 4.0, 0.1);
}

TEST(machine_priority, the_reserved_find_room_in_a_full_line) {
    dialogue d({.max = 1, .line_max = 1});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    EXPECT_EQ(ask(d, 3, priority::high), "refused: line_full");
    EXPECT_EQ(ask(d, 4, priority::reserved), "waits");
    d.release(0);
    EXPECT_EQ(d.said(), "4 gets 0");
}

// Shedding.

constexpr shed gentle{.target = 10ms, .interval = 100ms};

TEST(machine_shed, refuses_no_caller_while_the_line_is_short) {
    dialogue d({.max = 1, .shed = gentle});
    d.fill(1);
    for (std::uint64_t who = 1; who < 200; ++who) {
        d.ask(who);
        d.pass(5ms);
        d.ask(1000 + who);
        d.release(0);  // after 0 ms
        d.pass(5ms);
        d.release(0);
    }
    EXPECT_EQ(d.look().refused(errc::shed), 0u);
}

TEST(machine_shed, lets_a_burst_pass) {
    dialogue d({.max = 1, .shed = gentle});
    d.fill(1);
    for (std::uint64_t who = 1; who <= 9; ++who) d.ask(who);
    for (int i = 0; i < 9; ++i) {
        d.pass(10ms);
        d.release(0);
    }
    EXPECT_EQ(d.look().refused(errc::shed), 0u);
}

TEST(machine_shed, refuses_the_oldest_when_the_line_stays_late) {
    dialogue d({.max = 1, .shed = gentle});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.pass(100ms);  // a caller was served at once in this one
    EXPECT_EQ(d.said(), "nothing");
    d.pass(100ms);  // and no caller in this one
    EXPECT_EQ(d.said(), "2 refused: shed");
    d.ask(3);
    d.pass(19ms);
    EXPECT_EQ(d.said(), "nothing");
    d.pass(1ms);
    EXPECT_EQ(d.said(), "3 refused: shed");
}

TEST(machine_shed, ends_when_the_line_is_no_longer_late) {
    dialogue d({.max = 1, .shed = gentle});
    d.fill(1);
    d.ask(1);
    d.ask(2);
    d.pass(100ms);
    d.release(0);
    d.ask(3);
    d.pass(1ms);
    d.ask(4);
    d.release(0);  // served after 1 ms
    d.pass(100ms);
    d.ask(5);
    d.pass(50ms);
    EXPECT_EQ(d.said(), "nothing");
}

TEST(machine_shed, spares_the_reserved) {
    dialogue d({.max = 1, .shed = gentle});
    d.fill(1);
    d.ask(1);
    ask(d, 2, priority::reserved);
    d.ask(3);
    d.pass(1s);
    EXPECT_EQ(d.said(), "3 refused: shed");
}

TEST(machine_shed, spares_waiters_in_a_paused_pool) {
    dialogue d({.max = 1, .shed = gentle});
    d.fill(1);
    d.pause();
    d.ask(1);
    d.ask(2);
    d.pass(2s);
    EXPECT_EQ(d.said(), "nothing");
    d.resume();
    EXPECT_EQ(d.said(), "1 gets 0");
}

// A minute of three times as much demand as there is capacity.

struct outcome_of_overload {
    double goodput = 0;  // grants that were still wanted, as a share of what the pool could do
    duration p50{};
    duration p99{};
    double refused_at = 0;  // how long refusals took on average, in ms
};

/// Clients give up `patience` after they came, whether they have a lease by then or not: what is
/// lent later is wasted work.
outcome_of_overload overload(const shed& how) {
    constexpr std::size_t resources = 10;
    constexpr auto hold = 10ms;
    constexpr auto patience = 1s;
    constexpr duration every = duration{hold} / resources / 3;
    dialogue d({.max = resources,
                .min_size = resources,
                .acquire_timeout = patience,
                .idle_timeout = forever,
                .max_lifetime = forever,
                .line_max = 1'000'000,
                .shed = how});
    d.finish_calls();
    d.check_every = 500;
    instant begin = d.now;
    instant end = begin + 1min;
    struct back {
        instant at;
        slot_id slot;
        bool operator>(const back& other) const { return at > other.at; }
    };
    std::priority_queue<back, std::vector<back>, std::greater<>> busy;
    std::map<std::uint64_t, instant> came;
    std::vector<duration> waits;
    std::uint64_t useful = 0;
    double refused_after = 0;
    std::uint64_t refused = 0;
    auto granted = [&](std::uint64_t who, slot_id slot) {
        duration waited = d.now - came[who];
        waits.push_back(waited);
        useful += waited + hold <= patience;
        busy.push({d.now + hold, slot});
        came.erase(who);
    };
    auto hear = [&] {
        for (const action& a : d.heard()) {
            if (a.what == action::kind::grant) granted(a.cookie, a.slot);
            if (a.what != action::kind::refuse) continue;
            refused_after +=
                std::chrono::duration<double, std::milli>(d.now - came[a.cookie]).count();
            ++refused;
            came.erase(a.cookie);
        }
    };
    std::uint64_t who = 0;
    for (instant next = begin; d.now < end;) {
        instant wake = std::min({next, busy.empty() ? never : busy.top().at, d.it.wake_at()});
        d.now = wake;
        if (!busy.empty() && busy.top().at <= d.now) {
            slot_id slot = busy.top().slot;
            busy.pop();
            d.release(slot);
        } else if (next <= d.now) {
            next += every;
            came[++who] = d.now;
            std::string said = d.ask(who, patience);
            if (said.starts_with("got")) granted(who, d.slot_of(who));
        } else {
            d.tick();
        }
        hear();
    }
    std::sort(waits.begin(), waits.end());
    double capacity = std::chrono::duration<double>(end - begin) / hold * resources;
    return {.goodput = static_cast<double>(useful) / capacity,
            .p50 = waits[waits.size() / 2],
            .p99 = waits[waits.size() * 99 / 100],
            .refused_at = refused == 0 ? 0 : refused_after / static_cast<double>(refused)};
}

void print(const char* name, const outcome_of_overload& o) {
    auto ms = [](duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
    std::printf("%-28s %8.1f %% %9.1f ms %9.1f ms %9.1f ms\n", name, o.goodput * 100, ms(o.p50),
                ms(o.p99), o.refused_at);
}

TEST(machine_shed, keeps_the_pool_useful_at_three_times_its_capacity) {
    constexpr auto target = 20ms;
    std::printf("%-28s %10s %12s %12s %12s\n", "3 x capacity for a minute", "useful", "p50 wait",
                "p99 wait", "refused after");
    outcome_of_overload without = overload({});
    outcome_of_overload with = overload({.target = target, .interval = 100ms});
    print("without shedding", without);
    print("shed, target 20 ms", with);
    EXPECT_GE(with.goodput, 0.95);
    EXPECT_LE(with.p99, 2 * target);
    // What it prevents: every caller is served just before giving up, or after.
    EXPECT_LE(without.goodput, 0.2);
    EXPECT_GE(without.p99, 900ms);
}

}  // namespace
}  // namespace cenote::core

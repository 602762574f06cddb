// The clock of the library on the real system, on several threads, and in test programs.
//
// Its distance from the steady clock is judged by reading the steady clock before and after. The
// bound is wider than the one that tick_clock_test proves: a time server may be slewing the clock.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "shell/read_clock.hpp"
#include "shell/tick_clock.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

using namespace std::chrono_literals;
using cenote::core::instant;
using std::chrono::nanoseconds;
using steady = std::chrono::steady_clock;

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's name
extern "C" nanoseconds::rep __real__ZN6cenote5shell10read_clockEv() noexcept;
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace {

instant library_clock() { return instant{nanoseconds{__real__ZN6cenote5shell10read_clockEv()}}; }

struct deviation {
    nanoseconds behind = nanoseconds::min();  // an earlier reading of the steady clock
    nanoseconds ahead = nanoseconds::min();   // of a later one
    bool went_back = false;
};

template <class Clock>
deviation watch(Clock&& clock, nanoseconds how_long) {
    deviation most;
    instant last{};
    for (instant end = steady::now() + how_long;;) {
        instant before = steady::now();
        instant now = clock();
        instant after = steady::now();
        most.behind = std::max<nanoseconds>(most.behind, before - now);
        most.ahead = std::max<nanoseconds>(most.ahead, now - after);
        most.went_back |= now < last;
        last = now;
        if (after >= end) return most;
    }
}

template <class Clock>
void is_right_on_many_threads(Clock&& clock, nanoseconds how_long) {
    std::vector<deviation> all(4);
    std::vector<std::jthread> threads;
    threads.reserve(all.size());
    for (deviation& each : all) threads.emplace_back([&] { each = watch(clock, how_long); });
    threads.clear();
    for (const deviation& each : all) {
        EXPECT_LT(each.behind, 50us);
        EXPECT_LT(each.ahead, 50us);
        EXPECT_FALSE(each.went_back);
    }
}

}  // namespace

TEST(read_clock, is_the_steady_clock_within_its_bound) {
    is_right_on_many_threads(library_clock, 1s);
}

TEST(read_clock, many_short_threads_read_it) {
    for (int i = 0; i < support::rounds(200); ++i) is_right_on_many_threads(library_clock, 100us);
}

TEST(read_clock, is_right_in_the_child_of_a_fork) {
    watch(library_clock, 20ms);
    instant before = library_clock();
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        instant first = library_clock();
        deviation most = watch(library_clock, 20ms);
        bool right = first >= before && most.behind < 50us && most.ahead < 50us && !most.went_back;
        _exit(right ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

#if defined(__x86_64__)
namespace {

struct real_counter {
    static std::uint64_t ticks() { return __rdtsc(); }
    static std::uint64_t ticks_in_order() {
        _mm_lfence();
        return __rdtsc();
    }
    static instant steady() { return std::chrono::steady_clock::now(); }
};

}  // namespace

/// Also where the kernel does not trust the counter: the shared rate is shared without a race.
TEST(read_clock, is_measured_and_given_up_while_others_read) {
    for (int i = 0; i < 10; ++i) {
        cenote::shell::tick_rate rate;
        std::jthread judge([&] {
            rate.allow();
            watch(library_clock, 25ms);
            rate.refuse();
        });
        std::vector<std::jthread> threads;
        threads.reserve(3);
        for (int t = 0; t < 3; ++t) {
            threads.emplace_back([&] {
                cenote::shell::tick_clock<real_counter> mine{rate};
                EXPECT_FALSE(watch([&] { return mine.now(); }, 30ms).went_back);
            });
        }
    }
}
#endif

TEST(read_clock, stands_still_in_a_test_that_has_stopped_the_clock) {
    for (int i = 0; i < 1000; ++i) cenote::shell::read_clock();
    support::stopped_clock clock;
    instant then = steady::now();
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(cenote::shell::read_clock(), then);
    clock.advance(1ns);
    EXPECT_EQ(cenote::shell::read_clock(), then + 1ns);
    clock.advance(1h);
    EXPECT_EQ(cenote::shell::read_clock(), then + 1h + 1ns);
}

/// To the nanosecond, which a counter could not do.
TEST(read_clock, a_pool_sees_the_stopped_clock) {
    support::stopped_clock clock;
    cenote::pool<int> pool([] { return 1; }, {.max = 1});
    cenote::lease<int> held = pool.acquire();  // opened for it: not by the fast lane
    clock.advance(1s + 1ns);
    ASSERT_EQ(pool.leases().size(), 1u);
    EXPECT_EQ(pool.leases()[0].held, 1s + 1ns);
}

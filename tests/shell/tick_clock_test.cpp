// The extrapolated clock, on a system whose counter and clock the test moves.
#include "shell/tick_clock.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using cenote::core::instant;
using std::chrono::nanoseconds;

namespace {

constexpr std::uint64_t ticks_per_microsecond = 2500;

/// Reading takes no time, unless the test says so.
struct fake_system {
    static inline std::uint64_t counter = 0;
    static inline nanoseconds time{};
    static inline nanoseconds interrupted{};  // after the steady clock was read
    static inline int counter_reads = 0;
    static inline int steady_reads = 0;

    static void pass(nanoseconds t, int ppm = 0) {
        counter += static_cast<std::uint64_t>(t.count()) * ticks_per_microsecond / 1000;
        time += t + t * ppm / 1'000'000;
    }
    static std::uint64_t ticks() {
        ++counter_reads;
        return counter;
    }
    static std::uint64_t ticks_in_order() {
        pass(interrupted);
        return ticks();
    }
    static instant steady() {
        ++steady_reads;
        return instant{time};
    }
};

using fake_clock = cenote::shell::tick_clock<fake_system>;

struct tick_clock_test : testing::Test {
    cenote::shell::tick_rate rate;
    fake_clock clock{rate};

    tick_clock_test() {
        fake_system::counter = 1'000'000;
        fake_system::time = 1000s;
        fake_system::interrupted = 0ns;
        fake_system::counter_reads = fake_system::steady_reads = 0;
        rate.allow();
    }
    static instant steady() { return instant{fake_system::time}; }
    static void pass(nanoseconds t, int ppm = 0) { fake_system::pass(t, ppm); }
    void measure(int ppm = 0) {
        clock.now();
        pass(11ms, ppm);
        clock.now();
        ASSERT_NE(rate.get(), 0u);
        clock.now();
    }
    static int reads_of_steady(auto&& what) {
        int before = fake_system::steady_reads;
        what();
        return fake_system::steady_reads - before;
    }
    int reads_of_steady() {
        return reads_of_steady([&] { clock.now(); });
    }
    /// The most by which the clock is behind and ahead while time passes in small steps; and it
    /// must not go back.
    struct deviation {
        nanoseconds behind{};
        nanoseconds ahead{};
    };
    deviation deviation_during(nanoseconds all, int ppm) {
        deviation most;
        instant last = clock.now();
        for (nanoseconds gone{}; gone < all; gone += 800ns) {
            pass(800ns, ppm);
            instant now = clock.now();
            EXPECT_GE(now, last);
            last = now;
            most.behind = std::max(most.behind, nanoseconds(steady() - now));
            most.ahead = std::max(most.ahead, nanoseconds(now - steady()));
        }
        return most;
    }
};

constexpr nanoseconds anchor_lasts{fake_clock::anchor_lasts * 1000 / ticks_per_microsecond + 1};

}  // namespace

TEST_F(tick_clock_test, refused_it_is_the_steady_clock_and_leaves_the_counter_alone) {
    rate.refuse();
    for (int i = 0; i < 100; ++i) {
        pass(1ms);
        EXPECT_EQ(clock.now(), steady());
    }
    EXPECT_EQ(fake_system::counter_reads, 0);
    EXPECT_EQ(fake_system::steady_reads, 100);
}

TEST_F(tick_clock_test, nothing_is_carried_on_unless_it_is_allowed) {
    cenote::shell::tick_rate unasked;
    fake_clock other{unasked};
    other.now();
    pass(10ms);
    other.now();
    EXPECT_EQ(fake_system::counter_reads, 0);
}

TEST_F(tick_clock_test, it_is_the_steady_clock_until_the_rate_is_known) {
    for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(rate.get(), 0u);
        EXPECT_EQ(clock.now(), steady());
        pass(1ms);
    }
    EXPECT_EQ(clock.now(), steady());
    EXPECT_NE(rate.get(), 0u);
}

TEST_F(tick_clock_test, the_steady_clock_is_read_once_per_anchor) {
    measure();
    pass(anchor_lasts - 1us);
    EXPECT_EQ(reads_of_steady(), 0);
    pass(2us);
    EXPECT_EQ(reads_of_steady(), 1);
    EXPECT_EQ(reads_of_steady(), 0);
}

TEST_F(tick_clock_test, after_a_pause_it_is_the_steady_clock) {
    measure();
    for (nanoseconds pause : {anchor_lasts, nanoseconds{10ms}, nanoseconds{1h}}) {
        pass(pause);
        EXPECT_EQ(clock.now(), steady());
    }
}

TEST_F(tick_clock_test, what_one_thread_has_measured_serves_all) {
    measure();
    fake_clock other{rate};
    EXPECT_EQ(other.now(), steady());
    pass(10us);
    EXPECT_EQ(reads_of_steady([&] { other.now(); }), 0);
}

/// The rate of the steady clock, in ppm, while that of the counter is measured.
struct tick_clock_slewed : tick_clock_test, testing::WithParamInterface<int> {};

TEST_P(tick_clock_slewed, it_is_never_ahead_for_all_that_a_time_server_does) {
    measure(GetParam());
    for (int ppm : {-500, 0, 500}) {
        deviation most = deviation_during(50ms, ppm);
        EXPECT_LE(most.ahead, 0ns);
        EXPECT_LT(most.behind, anchor_lasts * 3 / 1000 + 2ns);
    }
}

INSTANTIATE_TEST_SUITE_P(all, tick_clock_slewed, testing::Values(-500, 0, 500));

TEST_F(tick_clock_test, a_clock_that_is_moved_fast_is_followed) {
    measure();
    deviation slowed = deviation_during(50ms, -100'000);
    EXPECT_LE(slowed.ahead, anchor_lasts / 10);
    deviation hastened = deviation_during(50ms, 100'000);
    EXPECT_LE(hastened.behind, anchor_lasts / 9);
    EXPECT_FALSE(rate.is_refused());
}

TEST_F(tick_clock_test, an_interruption_between_the_two_readings_makes_no_anchor) {
    measure();
    pass(1ms);
    fake_system::interrupted = 5ms;
    instant before = steady();
    EXPECT_EQ(clock.now(), before);
    fake_system::interrupted = 0ns;
    EXPECT_EQ(clock.now(), steady());
    EXPECT_EQ(reads_of_steady(), 0);
}

TEST_F(tick_clock_test, a_counter_that_is_slow_to_read_is_given_up) {
    measure();
    pass(1ms);
    fake_system::interrupted = 1us;
    for (unsigned i = 0; i <= fake_clock::wide_max; ++i) clock.now();
    EXPECT_TRUE(rate.is_refused());
    int reads = fake_system::counter_reads;
    EXPECT_EQ(clock.now(), steady());
    EXPECT_EQ(fake_system::counter_reads, reads);
}

TEST_F(tick_clock_test, interruptions_now_and_then_do_not_end_it) {
    measure();
    for (unsigned i = 0; i < 2 * fake_clock::wide_max; ++i) {
        pass(1ms);
        fake_system::interrupted = 5ms;
        clock.now();
        fake_system::interrupted = 0ns;
        clock.now();
    }
    EXPECT_FALSE(rate.is_refused());
}

TEST_F(tick_clock_test, a_counter_that_goes_back_is_read_anew) {
    measure();
    pass(50us);
    instant before = clock.now();
    fake_system::counter -= ticks_per_microsecond;  // a processor that is 1 us behind
    EXPECT_GE(clock.now(), before);
    EXPECT_EQ(clock.now(), steady());
    fake_system::counter = 5;  // another machine
    fake_system::time += 1s;
    EXPECT_EQ(clock.now(), steady());
    EXPECT_FALSE(rate.is_refused());
}

TEST_F(tick_clock_test, processors_that_disagree_end_it) {
    measure();
    pass(50us);
    clock.now();
    fake_system::counter += 100 * ticks_per_microsecond;
    instant last = clock.now();
    EXPECT_TRUE(rate.is_refused());
    for (int i = 0; i < 20; ++i) {
        pass(10us);
        EXPECT_GE(clock.now(), last);
        last = clock.now();
    }
    EXPECT_EQ(last, steady());
}

TEST_F(tick_clock_test, a_suspended_system_is_no_measurement) {
    clock.now();
    fake_system::counter += ticks_per_microsecond * 3'600'000'000;  // it counted on for an hour
    pass(20ms);
    clock.now();
    EXPECT_EQ(rate.get(), 0u);
    pass(20ms);
    clock.now();
    EXPECT_NE(rate.get(), 0u);
}

TEST_F(tick_clock_test, readings_far_apart_are_no_measurement) {
    for (int i = 0; i < 5; ++i) {
        clock.now();
        pass(2s);
    }
    EXPECT_EQ(rate.get(), 0u);
}

TEST_F(tick_clock_test, a_wrong_measurement_is_noticed_at_the_next_anchor) {
    clock.now();
    fake_system::counter += ticks_per_microsecond * 5000;  // suspended for a moment
    pass(10ms);
    clock.now();
    ASSERT_NE(rate.get(), 0u);
    clock.now();
    pass(anchor_lasts);
    EXPECT_EQ(clock.now(), steady());
    EXPECT_TRUE(rate.is_refused());
}

TEST_F(tick_clock_test, a_counter_that_no_processor_has_is_not_measured) {
    clock.now();
    fake_system::time += 20ms;  // stands still
    clock.now();
    EXPECT_EQ(rate.get(), 0u);
}

TEST_F(tick_clock_test, a_steady_clock_that_was_set_back_is_followed) {
    measure();
    pass(1ms);
    clock.now();
    fake_system::time -= 1h;
    pass(1ms);
    EXPECT_EQ(clock.now(), steady());
    pass(1ms);
    EXPECT_EQ(clock.now(), steady());
}

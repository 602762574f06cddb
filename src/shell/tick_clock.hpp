// The steady clock at the price of the processor's counter: the clock is read now and then, and
// extrapolated by the counter in between.
//
// Each thread has its own clock, so there is nothing to lock, and nothing that a fork could leave
// half-changed. Threads share one number, the rate of the counter.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/instant.hpp"

namespace cenote::shell {

/// The counter's rate: nanoseconds per tick, as a fixed-point number with 32 fractional bits.
class tick_rate {
public:
    /// Refused until allow() is called.
    constexpr tick_rate() = default;
    void allow() noexcept { value_.store(unknown, std::memory_order_relaxed); }
    /// Permanently: all clocks read the steady clock from now on.
    void refuse() noexcept { value_.store(refused, std::memory_order_relaxed); }

    bool is_refused() const noexcept { return value_.load(std::memory_order_relaxed) == refused; }
    /// 0: not known yet.
    std::uint64_t get() const noexcept {
        std::uint64_t value = value_.load(std::memory_order_relaxed);
        return value > unknown ? value : 0;
    }

    /// Sets the rate from a measurement, unless another thread has set it. False: the measurement
    /// is not plausible.
    bool learn(core::duration time, std::uint64_t ticks) noexcept {
        std::uint64_t nanoseconds = static_cast<std::uint64_t>(time.count());
        bool plausible = ticks >= nanoseconds && ticks / 10 <= nanoseconds;  // 1 to 10 GHz
        if (!plausible || time > longest_measurement) return false;
        std::uint64_t value = (nanoseconds << 32) / ticks;
        std::uint64_t expected = unknown;
        value_.compare_exchange_strong(expected, value - value / slower_by,
                                       std::memory_order_relaxed);
        return true;
    }

    static constexpr core::duration shortest_measurement = std::chrono::milliseconds{10};
    static constexpr core::duration longest_measurement = std::chrono::seconds{1};
    /// Clocks extrapolate 1/512 (0.2 %) too slowly, so that they go forward when they are
    /// corrected. Time servers change the rate of the steady clock by at most 0.1 % (-500 to +500
    /// ppm); the rest is for the error of the measurement.
    static constexpr std::uint64_t slower_by = 512;

private:
    static constexpr std::uint64_t refused = 0;
    static constexpr std::uint64_t unknown = 1;
    std::atomic<std::uint64_t> value_{refused};
};

/// The time as one thread reads it. Compared with the steady clock at the same instant it is
/// - never ahead, and behind by less than 1 us (reading both) + 0.3 % of the time since the steady
///   clock was read, which is at most 2^18 ticks ago: 0.3 us at 2.6 GHz, 0.8 us at 1 GHz;
/// - if the rate of the steady clock is changed by more than 0.1 %, off by that much of 2^18
///   ticks. Linux allows 10 %: 10 us at 2.6 GHz.
///
/// It never goes back on its thread. The times of two threads may differ by the bound, and by as
/// long as a processor runs ahead of a lock that it is taking (100 ns were seen). Code that
/// compares them must take the later one.
///
/// System: ticks(), ticks_in_order() (not executed ahead of the code before it) and steady().
template <class System>
class tick_clock {
public:
    constexpr explicit tick_clock(tick_rate& shared) noexcept : shared_(shared) {}
    tick_clock(const tick_clock&) = delete;
    tick_clock& operator=(const tick_clock&) = delete;

    core::instant now() noexcept {
        if (lasts_ == 0) [[unlikely]]
            return shared_.is_refused() ? read_steady() : read_both(System::ticks());
        std::uint64_t ticks = System::ticks();
        std::uint64_t age = ticks - anchor_ticks_;
        // The counter may also have gone back: on another processor, or after a migration.
        if (age < age_ || age >= lasts_) [[unlikely]]
            return read_both(ticks);
        age_ = age;
        return extrapolated(age);
    }

    static constexpr std::uint64_t anchor_lasts = std::uint64_t{1} << 18;
    /// Reading the steady clock takes at most this many ticks (1 us at 1 GHz), unless the thread is
    /// interrupted.
    static constexpr std::uint64_t widest = 1024;
    /// After this many interrupted readings in a row, the counter is not worth its price.
    static constexpr unsigned wide_max = 100;
    /// A clock that is ahead by less stands still until the steady clock has caught up. If it is
    /// ahead by more, the steady clock was set back (a process restored on another system), and the
    /// clock follows.
    static constexpr core::duration waits_for = std::chrono::milliseconds{1};

private:
    core::instant extrapolated(std::uint64_t age) const noexcept {
        return anchor_ + core::duration{static_cast<std::int64_t>((age * rate_) >> 32)};
    }

    core::instant read_steady() noexcept { return no_earlier(System::steady()); }

    /// Reads the steady clock, and extrapolates from there if possible.
    core::instant read_both(std::uint64_t before) noexcept {
        core::instant at = System::steady();
        std::uint64_t after = System::ticks_in_order();
        bool close = after - before <= widest;
        if (close) supervise(at, after);
        else if (wide_ >= wide_max) shared_.refuse();
        wide_ = close ? 0 : wide_ + 1;
        core::instant shown = no_earlier(at);
        if (!close || shown != at) return shown;
        std::uint64_t rate = shared_.get();
        if (rate == 0) measure(at, after);
        else set_anchor(at, after, rate);
        return shown;
    }

    void set_anchor(core::instant at, std::uint64_t ticks, std::uint64_t rate) noexcept {
        anchor_ = at;
        anchor_ticks_ = ticks;
        age_ = 0;
        rate_ = rate;
        lasts_ = anchor_lasts;
    }

    /// Drops the anchor. The time stands still rather than going back.
    core::instant no_earlier(core::instant at) noexcept {
        core::instant last = lasts_ != 0 ? extrapolated(age_) : last_;
        lasts_ = 0;
        return last_ = at < last && last - at < waits_for ? last : at;
    }

    /// Refuses the counter if the last anchor, when it is recent, led to another time than the
    /// steady clock's: the rate was measured during a suspension, or processors disagree.
    void supervise(core::instant at, std::uint64_t ticks) noexcept {
        std::uint64_t age = ticks - anchor_ticks_;
        if (lasts_ == 0 || age >= anchor_lasts * 64) return;
        core::duration off = at - extrapolated(age);
        core::duration tolerated = (at - anchor_) / 8 + std::chrono::microseconds{2};
        if (off > tolerated || -off > tolerated) shared_.refuse();
    }

    /// Measures the rate between two readings of both clocks. There is no anchor meanwhile, so its
    /// members store the first reading.
    void measure(core::instant at, std::uint64_t ticks) noexcept {
        core::duration time = at - anchor_;
        bool begun = anchor_ticks_ != 0 && time >= core::duration{};
        if (begun && time < tick_rate::shortest_measurement) return;
        if (begun && shared_.learn(time, ticks - anchor_ticks_)) return;
        anchor_ = at;
        anchor_ticks_ = ticks;
    }

    tick_rate& shared_;
    std::uint64_t lasts_ = 0;  // the anchor is valid for this many ticks; 0: there is none
    std::uint64_t anchor_ticks_ = 0;
    std::uint64_t age_ = 0;   // ticks from the anchor to the last time that was shown
    std::uint64_t rate_ = 0;  // a copy of the shared rate
    core::instant anchor_{};
    core::instant last_ = core::long_ago;  // without an anchor: the last time that was shown
    unsigned wide_ = 0;                    // interrupted readings in a row
};

}  // namespace cenote::shell

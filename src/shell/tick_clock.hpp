// The steady clock at the price of the processor's counter: it is read now and then, and the
// counter carries its time on in between.
//
// Each thread has a clock of its own, so there is nothing to lock, to race for or to leave behind
// in a fork. Threads share one number, the rate of the counter.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/instant.hpp"

namespace cenote::shell {

/// How fast the counter runs: nanoseconds per tick, as a fraction with 32 bits.
class tick_rate {
public:
    /// Refused until somebody knows that the counter can be trusted.
    constexpr tick_rate() = default;
    void allow() noexcept { value_.store(unknown, std::memory_order_relaxed); }
    /// For good: all clocks go back to reading the steady clock.
    void refuse() noexcept { value_.store(refused, std::memory_order_relaxed); }

    bool is_refused() const noexcept { return value_.load(std::memory_order_relaxed) == refused; }
    /// 0: not known.
    std::uint64_t get() const noexcept {
        std::uint64_t value = value_.load(std::memory_order_relaxed);
        return value > unknown ? value : 0;
    }

    /// The counter made so many ticks in `time`. False: no processor does.
    bool learn(core::duration time, std::uint64_t ticks) noexcept {
        std::uint64_t nanoseconds = static_cast<std::uint64_t>(time.count());
        bool plausible = ticks >= nanoseconds && ticks / 10 <= nanoseconds;  // 1 to 10 GHz
        if (!plausible || time > longest_measurement) return false;
        std::uint64_t value = (nanoseconds << 32) / ticks;
        std::uint64_t expected = unknown;  // the first to know; others still use what they got
        value_.compare_exchange_strong(expected, value - value / slower_by,
                                       std::memory_order_relaxed);
        return true;
    }

    static constexpr core::duration shortest_measurement = std::chrono::milliseconds{10};
    static constexpr core::duration longest_measurement = std::chrono::seconds{1};
    /// Time is carried on by 0.2 % too slowly, so that a clock goes forward when it is set right.
    /// Time servers change the rate of the steady clock by 0.1 % at most (-500 to +500 ppm); the
    /// rest is for the error of the measurement.
    static constexpr std::uint64_t slower_by = 512;

private:
    static constexpr std::uint64_t refused = 0;
    static constexpr std::uint64_t unknown = 1;
    std::atomic<std::uint64_t> value_{refused};
};

/// The time as one thread reads it. Compared with the steady clock at the same instant it is
/// - never ahead, and behind by less than 1 us (reading both) + 0.3 % of the time since the steady
///   clock was read, which is at most 2^18 ticks ago: 0.3 us at 2.6 GHz, 0.8 us at 1 GHz;
/// - if somebody changes the rate of the steady clock by more than 0.1 %, off by that much of
///   2^18 ticks. Linux allows 10 %: 10 us at 2.6 GHz.
///
/// It never goes back on its thread. Times of two threads may differ by the bound, and by as long
/// as a processor runs ahead of a lock that it is taking (100 ns were seen): who compares them
/// takes the later one.
///
/// System: ticks(), ticks_in_order() (not before what precedes it has been done) and steady().
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
        // Also not if the counter has gone back: on another processor, or after a migration.
        if (age < age_ || age >= lasts_) [[unlikely]]
            return read_both(ticks);
        age_ = age;
        return carried(age);
    }

    static constexpr std::uint64_t anchor_lasts = std::uint64_t{1} << 18;
    /// So many ticks, at most, from before the steady clock is read to after it: 1 us at 1 GHz. If
    /// it takes longer, the thread was interrupted.
    static constexpr std::uint64_t widest = 1024;
    /// After so many in a row that were wider, reading the counter is no bargain.
    static constexpr unsigned wide_max = 100;
    /// A time that is ahead by less waits for the steady clock. By more, the steady clock itself
    /// has been set back (a process restored on another system), and is followed.
    static constexpr core::duration waits_for = std::chrono::milliseconds{1};

private:
    core::instant carried(std::uint64_t age) const noexcept {
        return anchor_ + core::duration{static_cast<std::int64_t>((age * rate_) >> 32)};
    }

    core::instant read_steady() noexcept { return no_earlier(System::steady()); }

    /// Reads the steady clock, and carries it on from there if that can be done.
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

    /// Drops the anchor. Time stands still rather than going back.
    core::instant no_earlier(core::instant at) noexcept {
        core::instant last = lasts_ != 0 ? carried(age_) : last_;
        lasts_ = 0;
        return last_ = at < last && last - at < waits_for ? last : at;
    }

    /// Whether the last anchor led where the steady clock is, if that was not long ago. It does not
    /// if the rate was measured while the system was suspended, or if processors disagree.
    void supervise(core::instant at, std::uint64_t ticks) noexcept {
        std::uint64_t age = ticks - anchor_ticks_;
        if (lasts_ == 0 || age >= anchor_lasts * 64) return;
        core::duration off = at - carried(age);
        core::duration tolerated = (at - anchor_) / 8 + std::chrono::microseconds{2};
        if (off > tolerated || -off > tolerated) shared_.refuse();
    }

    /// Measures the rate from one reading of both to a later one. There is no anchor meanwhile, so
    /// its members hold the first.
    void measure(core::instant at, std::uint64_t ticks) noexcept {
        core::duration time = at - anchor_;
        bool begun = anchor_ticks_ != 0 && time >= core::duration{};
        if (begun && time < tick_rate::shortest_measurement) return;
        if (begun && shared_.learn(time, ticks - anchor_ticks_)) return;
        anchor_ = at;
        anchor_ticks_ = ticks;
    }

    tick_rate& shared_;
    std::uint64_t lasts_ = 0;  // for so many ticks the anchor is good; 0: there is none
    std::uint64_t anchor_ticks_ = 0;
    std::uint64_t age_ = 0;   // ticks from the anchor to the time that was shown last
    std::uint64_t rate_ = 0;  // as shared_ had it
    core::instant anchor_{};
    core::instant last_ = core::long_ago;  // without an anchor, the time that was shown last
    unsigned wide_ = 0;
};

}  // namespace cenote::shell

// The circuit breaker of the machine: its state, and how many borrowers it lets in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cenote/breaker.hpp"
#include "core/instant.hpp"
#include "core/tally.hpp"

namespace cenote::core {

/// A report to the strategy.
enum class circuit_news : std::uint8_t { succeeded, failed, cooled_down };

class circuit {
public:
    /// The shortest cool-down, even if the strategy says less.
    static constexpr duration shortest_cool_down = std::chrono::milliseconds{1};
    /// In an active pool successes are reported at most this often, as a sum.
    static constexpr duration tell_every = std::chrono::milliseconds{100};

    breaker_state state() const { return static_cast<breaker_state>(state_.get()); }
    bool flows() const { return state() == breaker_state::active; }
    /// The number of moves. A decision names the number that it is based on.
    std::uint64_t moves() const { return moves_; }

    /// Whether one more borrower is let in while `trying` have not ended.
    bool lets_in(std::size_t trying) const {
        return flows() || (state() == breaker_state::recovering && trying < probes_);
    }
    std::size_t probes() const { return probes_; }

    void go(instant now, const breaker_move& where) {
        ++moves_;
        state_.set(static_cast<std::uint64_t>(where.to));
        probes_ = std::max<std::size_t>(where.probes, 1);
        cool_down_ = std::max<duration>(where.cool_down, shortest_cool_down);
        ask_at_ = where.to == breaker_state::inactive ? after(now, cool_down_) : never;
        successes_ = 0;  // successes in one state say nothing in another
        tell_at_ = after(now, tell_every);
    }

    /// When the strategy is asked whether to recover.
    instant ask_at() const { return ask_at_; }
    void asked(instant now) { ask_at_ = after(now, cool_down_); }

    /// A use succeeded. True: report it to the strategy now.
    bool note_success(instant now) {
        count_success(now);
        return tell_at_ <= now || !flows();
    }
    void count_success(instant now) {
        ++successes_;
        success_at_ = now;
    }
    /// Until then successes in an active pool need not be reported.
    instant tell_at() const { return tell_at_; }
    /// When the last success ended.
    instant success_at() const { return success_at_; }
    /// The successes that were not reported yet; they are reported now.
    std::uint64_t take_successes(instant now) {
        tell_at_ = after(now, tell_every);
        return std::exchange(successes_, 0);
    }

    /// Estimated delay after which a refused caller should retry.
    duration retry_after(instant now) const {
        constexpr duration a_while = std::chrono::milliseconds{100};
        if (state() != breaker_state::inactive || ask_at_ == never) return a_while;
        return ask_at_ > now ? ask_at_ - now : duration{};
    }

private:
    tally state_;
    std::uint64_t moves_ = 0;
    std::size_t probes_ = 1;
    duration cool_down_ = duration::max();
    instant ask_at_ = never;
    std::uint64_t successes_ = 0;  // since the last report
    instant success_at_ = long_ago;
    instant tell_at_ = long_ago;
};

}  // namespace cenote::core

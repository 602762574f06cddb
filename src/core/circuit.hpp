// The circuit breaker's part in the machine: its state, and whom it lets in.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cenote/breaker.hpp"
#include "core/instant.hpp"
#include "core/tally.hpp"

namespace cenote::core {

/// What a strategy is told.
enum class circuit_news : std::uint8_t { succeeded, failed, cooled_down };

class circuit {
public:
    /// A strategy is not asked more often than this, whatever it says.
    static constexpr duration shortest_cool_down = std::chrono::milliseconds{1};
    /// In an active pool the strategy is told of successes at most this often, as a sum.
    static constexpr duration tell_every = std::chrono::milliseconds{100};

    breaker_state state() const { return static_cast<breaker_state>(state_.get()); }
    bool flows() const { return state() == breaker_state::active; }
    /// How many moves there were: whoever decides by what it saw says which state that was.
    std::uint64_t moves() const { return moves_; }

    /// Whether one more may come while `trying` of those let in have not ended.
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
        successes_ = 0;  // what was counted in one state says nothing in another
        tell_at_ = after(now, tell_every);
    }

    /// When the strategy is asked whether to recover.
    instant ask_at() const { return ask_at_; }
    void asked(instant now) { ask_at_ = after(now, cool_down_); }

    /// A use ended well. True: the strategy is to be told now.
    bool note_success(instant now) {
        count_success(now);
        return tell_at_ <= now || !flows();
    }
    void count_success(instant now) {
        ++successes_;
        success_at_ = now;
    }
    /// Until then an active pool's strategy need not be told of successes.
    instant tell_at() const { return tell_at_; }
    /// When the last of them ended.
    instant success_at() const { return success_at_; }
    /// The successes that the strategy has not been told of; it is told now.
    std::uint64_t take_successes(instant now) {
        tell_at_ = after(now, tell_every);
        return std::exchange(successes_, 0);
    }

    /// In how long it may be worth while to come again.
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
    std::uint64_t successes_ = 0;  // since the strategy was told last
    instant success_at_ = long_ago;
    instant tell_at_ = long_ago;
};

}  // namespace cenote::core

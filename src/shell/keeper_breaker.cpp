// The keeper and its circuit breaker.
#include <utility>

#include "shell/enter.hpp"
#include "shell/keeper.hpp"

namespace cenote::shell {

using core::instant;

void keeper::go(const breaker_move& where) {
    enter([&](instant now) {
        machine_.make_room(out_);
        shut_for_breaker(now, where.to);
        machine_.go(now, where, out_);
    });
}

/// The fast lane is for active pools alone.
void keeper::shut_for_breaker(instant now, breaker_state to) {
    if (to == breaker_state::active) return shelf_.lower(detail::circuit_open);
    shelf_.raise(detail::circuit_open);
    collect_shelf(now);
}

/// Leases that came back over the shelf: the machine does not hear of them one by one.
bool keeper::lane_went_well() {
    std::uint64_t puts = 0;
    for (std::size_t i = 0; i < traces_->size(); ++i)
        puts += (*traces_)[i].puts.load(std::memory_order_relaxed);
    return std::exchange(puts_judged_, puts) != puts;
}

void keeper::judge() noexcept {
    for (;;) {
        umpire::news n;
        breaker_state present{};
        bool went_well = false;
        {
            std::lock_guard lock(mutex_);
            if (!umpire_.next(n)) return tell_watchers();
            present = machine_.breaker().state();
            // The lane is open in active pools alone: what it did before says nothing of now.
            went_well = lane_went_well() && present == breaker_state::active;
        }
        std::optional<breaker_move> ruling = umpire_.rule(n, present, went_well);
        if (!ruling) continue;
        enter([&](instant now) noexcept {
            if (machine_.breaker().moves() != n.moves) return;
            shut_for_breaker(now, ruling->to);
            machine_.follow(now, n.moves, *ruling, out_);
        });
    }
}

}  // namespace cenote::shell

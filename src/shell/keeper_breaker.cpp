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

/// How many leases came back over the shelf since the last time: the machine does not hear of them
/// one by one. Counted when something is noted, not when the strategy is told of it, which may be
/// much later: a strategy hears successes and failures in the order in which they happened.
std::uint64_t keeper::count_lane() {
    std::uint64_t puts = 0;
    for (std::size_t i = 0; i < traces_->size(); ++i)
        puts += (*traces_)[i].puts.load(std::memory_order_relaxed);
    std::uint64_t before = std::exchange(puts_judged_, puts);
    bool counts = machine_.breaker().state() == breaker_state::active;
    return counts && puts > before ? puts - before : 0;  // a put may be taken back
}

/// Has the strategy told of the leases that passed over the shelf.
void keeper::note_lane(instant now) {
    const core::circuit& at = machine_.breaker();
    if (at.flows())
        umpire_.note({.what = core::circuit_news::succeeded,
                      .at = now,
                      .moves = at.moves(),
                      .over_lane = count_lane()});
}

/// The new one is told of nothing that was before.
void keeper::set_breaker(std::shared_ptr<breaker> strategy) {
    {
        std::lock_guard lock(mutex_);
        if (strategy != nullptr && umpire_.tells(strategy.get())) return;
    }
    std::shared_ptr<breaker> ours = umpire::claim(std::move(strategy));
    umpire::all_news dropped;
    std::lock_guard lock(mutex_);
    ours = umpire_.replace(std::move(ours), dropped);
    count_lane();
    machine_.forget_successes(now());
}

/// The pool has ended: its strategy may have another one.
void keeper::let_go_of_strategy() noexcept {
    umpire::all_news dropped;
    std::shared_ptr<breaker> ours;
    std::lock_guard lock(mutex_);
    ours = umpire_.replace(nullptr, dropped);
}

void keeper::judge() noexcept {
    {
        std::lock_guard lock(mutex_);
        // Only from here on is it under way: the pool's end waits for that, and may have come in
        // what a waiter did.
        if (machine_.closed() || !umpire_.begin()) return;
    }
    for (;;) {
        umpire::news n;
        breaker_state present{};
        {
            std::lock_guard lock(mutex_);
            if (!umpire_.next(n)) return tell_watchers();
            // What was before the last move says nothing of now.
            if (n.moves != machine_.breaker().moves()) continue;
            present = machine_.breaker().state();
        }
        std::optional<breaker_move> ruling = umpire::rule(n, name_, present);
        if (!ruling) continue;
        enter([&](instant now) noexcept {
            if (machine_.breaker().moves() != n.moves || !umpire_.tells(n.told.get())) return;
            shut_for_breaker(now, ruling->to);
            machine_.follow(now, n.moves, *ruling, out_);
        });
    }
}

}  // namespace cenote::shell

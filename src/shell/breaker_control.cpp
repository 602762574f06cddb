// The circuit breaker of a pool: manual control, and the decisions of its strategy.
#include <utility>

#include "shell/operations.hpp"

namespace cenote::shell {

using core::instant;

namespace {

/// Only active pools have a fast lane.
void shut_lane_for(keeper& k, instant now, breaker_state to) CENOTE_REQUIRES(k.lock) {
    if (to == breaker_state::active) k.lane.open(detail::circuit_open);
    else k.lane.shut(now, detail::circuit_open);
}

}  // namespace

/// A delivery begins only here: the end of the pool waits for it, and may come in the code of a
/// waiter that was notified before.
void deliver_reports(keeper& k) noexcept {
    {
        pool_guard here(k.lock);
        if (k.machine.closed() || !k.reports.begin_delivery()) return;
    }
    for (;;) {
        breaker_reports::report r;
        {
            pool_guard here(k.lock);
            if (!k.reports.next(r, k.machine.breaker())) return k.pool_waiters.notify();
        }
        std::optional<breaker_move> wanted = breaker_reports::deliver(r, k.name());
        if (!wanted) continue;
        k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
            bool moved = k.machine.breaker().moves() != r.moves;
            if (moved || !k.reports.go_to(r.to.get())) return;
            shut_lane_for(k, now, wanted->to);
            k.machine.follow(now, r.moves, *wanted, k.out);
        });
    }
}

void drop_strategy(keeper& k) noexcept {
    breaker_reports::all_reports dropped;
    std::shared_ptr<breaker> strategy;
    pool_guard here(k.lock);
    strategy = k.reports.replace(nullptr, dropped);
}

}  // namespace cenote::shell

namespace cenote::detail {

using shell::keeper;
using shell::keeper_of;
using shell::pool_guard;

void gate::move_breaker(const breaker_move& where) {
    keeper& k = keeper_of(this);
    k.enter_with_room([&](core::instant now) CENOTE_REQUIRES(k.lock) {
        shell::shut_lane_for(k, now, where.to);
        k.machine.go(now, where, k.out);
    });
}

/// The new strategy is told nothing of the past.
void gate::set_breaker(std::shared_ptr<breaker> strategy) {
    keeper& k = keeper_of(this);
    {
        pool_guard here(k.lock);
        if (strategy != nullptr && k.reports.go_to(strategy.get())) return;
    }
    std::shared_ptr<breaker> changed = shell::breaker_reports::claim(std::move(strategy));
    shell::breaker_reports::all_reports dropped;
    pool_guard here(k.lock);
    changed = k.reports.replace(std::move(changed), dropped);
    k.lane_pool.count_successes();
    k.machine.forget_successes(k.now_in_order());
}

std::chrono::nanoseconds gate::retry_after() const {
    const keeper& k = keeper_of(this);
    pool_guard here(k.lock);
    return k.machine.retry_after(k.now_in_order());
}

}  // namespace cenote::detail

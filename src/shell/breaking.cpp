// A pool and its circuit breaker.
#include <utility>

#include "shell/around.hpp"
#include "shell/enter.hpp"

namespace cenote::shell {

using core::instant;

namespace {

/// The fast lane is for active pools alone.
void shut_lane_for(keeper& k, instant now, breaker_state to) CENOTE_REQUIRES(k.lock) {
    if (to == breaker_state::active) k.lane.open(detail::circuit_open);
    else k.lane.shut(now, detail::circuit_open);
}

enum class found : std::uint8_t { news, old_news, nothing };

/// What is to be told next, and in which state the circuit is. Goes into an empty `n`: what it had
/// would end under the lock.
found next_news(keeper& k, umpire::news& n, breaker_state& present) CENOTE_EXCLUDES(k.lock) {
    holding here(k.lock);
    if (!k.strategy.next(n)) {
        k.watchers.tell();
        return found::nothing;
    }
    present = k.machine.breaker().state();
    // What was before the last move says nothing of now.
    return n.moves == k.machine.breaker().moves() ? found::news : found::old_news;
}

/// True: the caller has to tell them. Only from here on is it under way: the pool's end waits for
/// that, and may have come in what a waiter does.
bool begin_telling(keeper& k) CENOTE_EXCLUDES(k.lock) {
    holding here(k.lock);
    return !k.machine.closed() && k.strategy.begin();
}

}  // namespace

void tell_strategy(keeper& k) noexcept {
    if (!begin_telling(k)) return;
    for (;;) {
        umpire::news n;
        breaker_state present{};
        found what = next_news(k, n, present);
        if (what == found::nothing) return;
        if (what == found::old_news) continue;
        std::optional<breaker_move> ruling = umpire::rule(n, k.name(), present);
        if (!ruling) continue;
        k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
            if (k.machine.breaker().moves() != n.moves || !k.strategy.tells(n.told.get())) return;
            shut_lane_for(k, now, ruling->to);
            k.machine.follow(now, n.moves, *ruling, k.out);
        });
    }
}

void let_go_of_strategy(keeper& k) noexcept {
    umpire::all_news dropped;
    std::shared_ptr<breaker> ours;
    holding here(k.lock);
    ours = k.strategy.replace(nullptr, dropped);
}

}  // namespace cenote::shell

namespace cenote::detail {

using shell::keeper;
using shell::keeper_of;

void gate::go(const breaker_move& where) {
    keeper& k = keeper_of(this);
    k.enter([&](core::instant now) CENOTE_REQUIRES(k.lock) {
        k.machine.make_room(k.out);
        shell::shut_lane_for(k, now, where.to);
        k.machine.go(now, where, k.out);
    });
}

/// The new one is told of nothing that was before.
void gate::set_breaker(std::shared_ptr<breaker> strategy) {
    keeper& k = keeper_of(this);
    {
        shell::holding here(k.lock);
        if (strategy != nullptr && k.strategy.tells(strategy.get())) return;
    }
    std::shared_ptr<breaker> ours = shell::umpire::claim(std::move(strategy));
    shell::umpire::all_news dropped;
    shell::holding here(k.lock);
    ours = k.strategy.replace(std::move(ours), dropped);
    k.around_lane.count_successes();
    k.machine.forget_successes(k.now_in_order());
}

std::chrono::nanoseconds gate::retry_after() const {
    const keeper& k = keeper_of(this);
    shell::holding here(k.lock);
    return k.machine.retry_after(k.now_in_order());
}

}  // namespace cenote::detail

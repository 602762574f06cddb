// A clock that a test moves, and the pools that use it.
//
// Lock order: the lock of the list of keepers before a keeper's lock. A keeper reads the time under
// its lock, but reading takes no lock.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "cenote/testing.hpp"
#include "core/instant.hpp"
#include "shell/fork.hpp"
#include "shell/keeper.hpp"

namespace cenote {

namespace {

/// The clock stops here, well before `never`: timers at `never` must not expire.
constexpr manual_clock::time_point farthest = core::never - std::chrono::hours{24 * 365};

}  // namespace

/// The next timer of all pools. Has a reference to the keeper.
struct manual_clock::due {
    time_point at = core::never;
    shell::keeper* in = nullptr;

    due() = default;
    due(due&& other) noexcept : at(other.at), in(std::exchange(other.in, nullptr)) {}
    due& operator=(due&&) = delete;
    ~due() {
        if (in != nullptr) in->drop_ref();
    }
};

manual_clock::manual_clock(waiting how) noexcept
    : how_(how), now_(std::chrono::steady_clock::now().time_since_epoch().count()) {}

void manual_clock::advance(std::chrono::nanoseconds by) {
    if (by.count() < 0)
        throw std::invalid_argument("cenote: manual_clock::advance: the time must not be negative");
    advance_to(core::after(now(), by));
}

void manual_clock::advance_to(time_point to) noexcept {
    to = std::min(to, farthest);
    for (;;) {
        due next = first_due();
        if (next.in == nullptr || next.at > to) {
            if (now() >= to) break;
            move_to(to);  // and look again: a timer that was set before the move may be due now
            continue;
        }
        move_to(next.at);
        next.in->tick();
    }
    std::lock_guard lock(shell::keeper_list_lock());
    for (shell::keeper* k : pools_) {
        shell::pool_guard here(k->lock);
        k->pool_waiters.notify();
    }
}

bool manual_clock::advance_to_next(time_point limit) noexcept {
    time_point at = std::min(first_due().at, limit);
    if (at > farthest) return false;
    advance_to(at);
    return true;
}

manual_clock::due manual_clock::first_due() noexcept {
    due first;
    std::lock_guard lock(shell::keeper_list_lock());
    for (shell::keeper* k : pools_) {
        shell::pool_guard here(k->lock);
        time_point at = k->wake_at();
        if (at >= first.at) continue;
        first.at = at;
        first.in = k;
    }
    if (first.in != nullptr) first.in->add_ref();
    return first;
}

void manual_clock::move_to(time_point to) noexcept {
    auto count = to.time_since_epoch().count();
    auto before = now_.load(std::memory_order_relaxed);
    while (before < count && !now_.compare_exchange_weak(before, count, std::memory_order_acq_rel,
                                                         std::memory_order_relaxed)) {
    }
}

void manual_clock::add(shell::keeper& k) {
    std::lock_guard lock(shell::keeper_list_lock());
    pools_.push_back(&k);
}

void manual_clock::remove(shell::keeper& k) noexcept {
    std::lock_guard lock(shell::keeper_list_lock());
    std::erase(pools_, &k);
}

}  // namespace cenote

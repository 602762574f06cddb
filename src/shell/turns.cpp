// Turns: a thread has its own back while others wait. See core/machine_turns.cpp.
#include "shell/around.hpp"
#include "shell/enter.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;

/// Whom the machine has lent it to, the machine knows: a coroutine or a thread. Which thread is
/// unknown once the lease was moved. Of leases from the shelf it knows nothing.
std::uint64_t thread_that_returns(const keeper& k, const resource* r) {
    std::uint64_t had_it = r->seen->holder.load(std::memory_order_relaxed);
    std::uint64_t me = detail::this_thread();
    bool moved = had_it == 0 && k.leases.uses_since(r) == 0;
    return had_it == me || moved ? me : 0;
}

bool set_aside(keeper& k, resource* r) {
    bool rouse = false;
    {
        holding here(k.lock);
        // As for a lease that is passed on.
        if (k.forks.is_behind() || k.has_jobs() || k.lane.has_recalled() ||
            k.looks_before_acquire() || k.strategy.needs_telling())
            return false;
        instant now = k.now_in_order();
        keeper::changing bracket(k.sequence);
        if (!k.machine.set_aside(now, r->slot, k.leases.uses_since(r), lease_ledger::held(now, r),
                                 r->owes, thread_that_returns(k, r)))
            return false;
        k.leases.take_uses(r);
        rouse = !k.is_minded_until(k.machine.aside_at());
        if (rouse) k.add_ref();  // from here on it is another borrower's
    }
    if (rouse) [[unlikely]]
        rouse_and_drop(k);
    return true;
}

/// Whether a resource is set aside for anybody. A hint: this thread has seen its own.
CENOTE_UNCHECKED_LOCKING static bool any_aside(const keeper& k) { return k.machine.has_aside(); }

bool claim(keeper& k, detail::waiter& who) {
    bool plain = any_aside(k) && who.ticket == 0 && !k.looks_before_acquire();
    if (!plain) return false;
    bool rouse = false;
    {
        holding here(k.lock);
        if (k.forks.is_behind() || who.stopped || k.has_jobs()) return false;
        instant now = k.now_in_order();
        if (was_suspended(k, now)) return false;
        keeper::changing bracket(k.sequence);
        core::slot_id id = core::no_slot;
        if (!k.machine.claim(now, who.holder, who.wants.rank, id)) return false;
        who.arrived = now;
        who.got = k.calls.in(id);
        who.error = {};
        k.granted(now, who.got, borrower_of(who));
        rouse = k.must_tell_clock();
    }
    who.process.store(detail::no_process, std::memory_order_relaxed);
    if (rouse) [[unlikely]]
        k.enter([](instant) noexcept {});  // what was lent keeps the keeper
    return true;
}

}  // namespace cenote::shell

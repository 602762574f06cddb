// How a lease ends.
#include <bit>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/machine_express.hpp"
#include "shell/around.hpp"
#include "shell/enter.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;

namespace {

/// Where a lease went at once.
struct passed {
    detail::waiter* to = nullptr;  // is still to be told; null: nothing has changed
    bool rouse = false;  // the clock must be minded from earlier on; keeps the keeper for that
};

/// Here the ledger has more to do than when a lease is passed on. Not inlined: rare.
[[gnu::noinline]] void grant(keeper& k, instant now, resource* r, const detail::waiter& w)
    CENOTE_REQUIRES(k.lock) {
    k.granted(now, r, borrower_of(w));
}

/// In a full pool where only the line can move: straight to the waiter at its head.
passed pass_on(keeper& k, resource* r) CENOTE_EXCLUDES(k.lock) {
    holding here(k.lock);
    // Leases from before a recall, and what before_acquire looks at, take the long way.
    if (k.forks.is_behind() || k.has_jobs() || k.lane.has_recalled() || k.looks_before_acquire() ||
        k.strategy.needs_telling())
        return {};
    instant now = k.now_in_order();
    std::uint64_t cookie = 0;
    keeper::changing bracket(k.sequence);
    std::uint64_t uses = k.leases.uses_since(r);
    if (!k.machine.pass_on(now, r->slot, uses, lease_ledger::held(now, r), r->owes, cookie))
        return {};
    auto* w = std::bit_cast<detail::waiter*>(cookie);
    w->error = {};
    w->got = r;
    if (k.takes_turns) k.machine.lent_to(now, r->slot, w->holder != 0, w->wants.rank);
    if (!k.leases.passed_on(now, r, uses, *w)) grant(k, now, r, *w);
    else if (k.lane.is_swept()) k.lane.sweep_by(k.machine.look(r->slot).expires_at);
    bool rouse = !k.is_minded_until(k.leases.look_at());
    if (rouse) k.add_ref();
    return {.to = w, .rouse = rouse};
}

/// In a calm pool: it becomes idle. False: nothing has changed.
[[gnu::noinline]] bool put_back(keeper& k, resource* r) CENOTE_EXCLUDES(k.lock) {
    bool rouse = false;
    {
        holding here(k.lock);
        if (k.forks.is_behind() || k.has_jobs() || k.lane.is_open() || k.lane.has_recalled() ||
            k.strategy.needs_telling())
            return false;
        instant now = k.now_in_order();
        keeper::changing bracket(k.sequence);
        if (!k.machine.put_back(now, r->slot, k.leases.uses_since(r), lease_ledger::held(now, r),
                                r->owes))
            return false;
        k.leases.take_uses(r);
        rouse = k.must_tell_clock();
        if (rouse) k.add_ref();  // from here on it is another borrower's
    }
    if (rouse) [[unlikely]]
        rouse_and_drop(k);
    return true;
}

/// False: it has to go the long way.
[[gnu::noinline]] bool pass_on_and_tell(keeper& k, resource* r) CENOTE_EXCLUDES(k.lock) {
    passed p = pass_on(k, r);
    if (p.to == nullptr) return false;
    p.to->process.store(detail::no_process, std::memory_order_relaxed);
    p.to->notify();  // from here on the keeper may be gone
    if (p.rouse) [[unlikely]]
        rouse_and_drop(k);
    return true;
}

/// A clean lease in a pool where little has to be decided. False: it has to go the long way.
inline bool release_at_once(keeper& k, resource* r) CENOTE_EXCLUDES(k.lock) {
    if (!k.has_waiters()) return put_back(k, r);
    if (k.takes_turns && set_aside(k, r)) return true;
    return pass_on_and_tell(k, r);
}

/// Not inlined: what it is called with needs room on the stack.
[[gnu::noinline]] void release_slowly(keeper& k, resource* r) noexcept { k.release(r, nullptr); }

/// Clean, or owing a reset.
bool returns_as_it_is(core::condition how) {
    return how == core::condition::clean || how == core::condition::owing;
}

/// How the machine is told of it.
core::condition condition_of(const resource* r, bool unused) {
    using core::condition;
    auto how = static_cast<condition>(r->state);
    if (unused && how == condition::dirty) return condition::dirty_unused;
    if (r->owes && how == condition::clean) return condition::owing;
    if (r->owes && how == condition::unused) return condition::owing_unused;
    return how;
}

void end_lease(keeper& k, instant now, resource* r, core::condition how,
               const std::exception_ptr& cause) CENOTE_REQUIRES(k.lock) {
    std::optional<core::duration> held = lease_ledger::held(now, r);
    const core::slot& s = k.machine.look(r->slot);
    if (cause != nullptr) k.opens.begin_answer(cause, s.resource);
    // The machine must hear of the end of a trial.
    bool plain = returns_as_it_is(how) && !s.trial;
    if (!plain || !k.lane.keep(now, r))
        return k.give_to_machine(now, r, how, held, k.takes_turns ? thread_that_returns(k, r) : 0);
    if (held) k.machine.note_hold(*held);
}

}  // namespace

void rouse_and_drop(keeper& k) noexcept {
    k.enter([](instant) noexcept {});
    k.drop_ref();
}

void keeper::release(resource* r) noexcept {
    bool plain = r->state == detail::condition::clean && !looks_before_release_ && !is_foreign(r);
    if (!plain || !release_at_once(*this, r)) release_slowly(*this, r);
}

void keeper::release(resource* r, std::exception_ptr cause) noexcept {
    bool unused = r->state == detail::condition::unused;
    if (looks_before_release_) {
        std::exception_ptr thrown = look_before_release(r);
        if (cause == nullptr) cause = std::move(thrown);
    }
    if (is_foreign(r)) return forsake(r);
    // Others have tried that already. (Rule 4 of the shelf.)
    bool may_lie = looks_before_release_ && (!r->owes || shelf_.takes_debts());
    if (may_lie && lay_back(r)) return;
    core::condition how = condition_of(r, unused);
    r->state = detail::condition::clean;
    // Without a hook a clean one has tried that already.
    bool clean = returns_as_it_is(how) && looks_before_release_;
    if (clean && release_at_once(*this, r)) return;
    enter([&](instant now)
              CENOTE_REQUIRES(lock) noexcept { end_lease(*this, now, r, how, cause); });
}

void keeper::give_to_machine(instant now, resource* r, core::condition how,
                             const std::optional<core::duration>& held, std::uint64_t thread) {
    lane.is_back(r);
    machine.release(now, r->slot, how, leases.take_uses(r), held, out, thread);
}

bool keeper::look_before_acquire(resource* r) noexcept {
    try {
        return r->made_by->before_acquire(*r);
    } catch (...) {
        return false;
    }
}

namespace {

std::exception_ptr no_reset_to_make() noexcept {
    try {
        throw std::logic_error(
            "cenote: before_release returned reset_later, and the connector has no reset");
    } catch (...) {
        return std::current_exception();
    }
}

}  // namespace

/// Only at what its holder thinks can be kept. Returns what it throws.
std::exception_ptr keeper::look_before_release(resource* r) noexcept {
    bool returns = r->state == detail::condition::clean || r->state == detail::condition::dirty ||
                   r->state == detail::condition::unused;
    if (!returns || is_foreign(r)) return nullptr;
    verdict said = verdict::discard;
    std::exception_ptr thrown;
    try {
        said = r->made_by->before_release(*r);
    } catch (...) {
        thrown = std::current_exception();
    }
    bool unused = r->state == detail::condition::unused;
    bool dirty = r->state == detail::condition::dirty;
    auto be_reset = [r]() -> std::exception_ptr {
        r->state = detail::condition::dirty;
        r->owes = false;
        return nullptr;
    };
    switch (said) {
        case verdict::keep:
            // What is dirty stays so, and what was not used owes what it owed.
            r->owes = r->owes && unused;
            return nullptr;
        case verdict::reset_later:
            if (!can.reset) {
                thrown = no_reset_to_make();
                break;
            }
            if (dirty || fixed.reset_after <= core::duration{}) return be_reset();
            r->owes = true;
            return nullptr;
        case verdict::reset: return be_reset();
        case verdict::suspect:
            suspect(r);
            r->state = detail::condition::broken;
            return nullptr;
        case verdict::discard:
        case verdict::final: break;
    }
    r->state = detail::condition::rejected;
    return thrown;
}

}  // namespace cenote::shell

namespace cenote::detail {

using core::instant;
using shell::keeper;
using shell::keeper_of;

void gate::release(resource* r) noexcept {
    if (this_threads_mark == nullptr) register_without_allocating();  // for the next time
    keeper_of(this).release(r);
}

void gate::discard(resource* r, const std::exception_ptr& cause) noexcept {
    if (this_threads_mark == nullptr) register_without_allocating();  // for the next time
    r->state = condition::broken;
    keeper_of(this).release(r, cause);
}

void gate::hand_in_and_leave(resource* r, const gate* outer) noexcept {
    hand_in_taken(r);
    this_threads_mark->leave(outer);
}

resource* gate::hand_in_taken(resource* r) noexcept {
    keeper& k = keeper_of(this);
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept { k.lane.hand_in(now, r); });
    return nullptr;
}

resource* gate::taken(resource* r) noexcept {
    if (r->seen->hits.load(std::memory_order_relaxed) % sample == 0)
        r->seen->leased_at.store(now().time_since_epoch().count(), std::memory_order_relaxed);
    keeper& k = keeper_of(this);
    if (k.admits(r)) return r;
    r->state = condition::unfit;
    k.release(r);
    return nullptr;
}

std::unique_ptr<resource> gate::detach(resource* r) noexcept {
    keeper& k = keeper_of(this);
    // A caller that detaches what is the parent's knows what it does.
    if (shell::is_foreign(r)) {
        shell::holding here(k.lock);
        if (k.forks.is_behind()) k.calls.in(r->slot) = nullptr;
        else k.forks.disinherit(r);
        return std::unique_ptr<resource>(r);
    }
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        k.lane.is_back(r);
        k.calls.in(r->slot) = nullptr;
        k.machine.detach(now, r->slot, k.out);
    });
    return std::unique_ptr<resource>(r);
}

}  // namespace cenote::detail

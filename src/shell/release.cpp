// How a lease ends: directly, where the machine need not settle, or with a request to the machine.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>

#include "core/machine_express.hpp"
#include "shell/operations.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;

namespace {

bool is_reusable(core::condition how) {
    return how == core::condition::clean || how == core::condition::owing;
}

/// How the machine is told of a lease's end.
core::condition condition_of(const resource* r, bool unused) {
    using core::condition;
    auto how = static_cast<condition>(r->state);
    if (unused && how == condition::dirty) return condition::dirty_unused;
    if (r->owes && how == condition::clean) return condition::owing;
    if (r->owes && how == condition::unused) return condition::owing_unused;
    return how;
}

/// The number of the thread that returns `r`, if it may also have acquired `r`; else 0. The machine
/// knows whether it lent to a thread or to a coroutine, but not of leases from the shelf. After a
/// move of the lease the thread is unknown.
std::uint64_t thread_that_returns(const keeper& k, const resource* r) CENOTE_REQUIRES(k.lock) {
    std::uint64_t holder = r->seen->holder.load(std::memory_order_relaxed);
    std::uint64_t me = detail::this_thread();
    bool moved = holder == 0 && k.leases.uses_since(r) == 0;
    return holder == me || moved ? me : 0;
}

// A full request.

void tell_machine(keeper& k, instant now, resource* r, core::condition how,
                  const std::exception_ptr& cause) CENOTE_REQUIRES(k.lock) {
    std::optional<core::duration> held = lease_ledger::held(now, r);
    const core::slot& s = k.machine.look(r->slot);
    if (cause != nullptr) k.opens.begin_answer(cause, s.resource);
    // The machine must be told of the end of a trial.
    bool plain = is_reusable(how) && !s.trial;
    if (!plain || !k.lane.put(now, r)) {
        std::uint64_t thread = k.takes_turns ? thread_that_returns(k, r) : 0;
        return k.return_to_machine(now, r, how, held, thread);
    }
    if (held) k.machine.note_hold(*held);
}

/// Not inlined: it needs room on the stack.
[[gnu::noinline]] void end_lease(keeper& k, resource* r, core::condition how,
                                 const std::exception_ptr& cause) noexcept CENOTE_EXCLUDES(k.lock) {
    k.enter([&](instant now)
                CENOTE_REQUIRES(k.lock) noexcept { tell_machine(k, now, r, how, cause); });
}

[[gnu::noinline]] void end_clean_lease(keeper& k, resource* r) noexcept CENOTE_EXCLUDES(k.lock) {
    end_lease(k, r, condition_of(r, false), nullptr);
}

// Direct ends. They apply to clean leases, also to those that owe a reset. Where they are not
// possible, nothing has changed, and a full request follows.

/// Leases from before a recall, queued jobs and undelivered reports need a full request.
[[gnu::always_inline]] inline bool may_end_directly(const keeper& k) CENOTE_REQUIRES(k.lock) {
    return !k.forks.must_restart() && !k.has_jobs() && !k.lane.has_recalled() &&
           !k.reports.need_delivery();
}

/// The timer must be set earlier. Drops the reference that kept the keeper for that.
void rearm_and_drop(keeper& k) noexcept {
    k.enter([](instant) noexcept {});
    k.drop_ref();
}

/// Ends a lease if `give` gives it to the machine.
template <class Give>
[[gnu::always_inline]] inline bool end_directly(keeper& k, resource* r, Give give) noexcept
    CENOTE_EXCLUDES(k.lock) {
    bool rearm = false;
    {
        pool_guard here(k.lock);
        if (!may_end_directly(k)) return false;
        instant now = k.now_in_order();
        keeper::changing bracket(k.sequence);
        if (!give(now)) return false;
        k.leases.take_uses(r);
        rearm = k.must_rearm_timer();
        if (rearm) k.add_ref();  // from here on another borrower may have the resource
    }
    if (rearm) [[unlikely]]
        rearm_and_drop(k);
    return true;
}

/// In a calm pool: the resource becomes idle.
[[gnu::noinline]] void put_back(keeper& k, resource* r) noexcept CENOTE_EXCLUDES(k.lock) {
    bool done = end_directly(k, r, [&](instant now) {
        k.lock.is_held();
        return !k.lane.is_open() && k.machine.put_back(now, r->slot, k.leases.uses_since(r),
                                                       lease_ledger::held(now, r), r->owes);
    });
    if (!done) [[unlikely]]
        end_clean_lease(k, r);
}

/// What a direct end did.
struct passed {
    detail::waiter* to = nullptr;  // to be notified
    bool aside = false;            // set aside for this thread; else and if `to` is null: nothing
    bool rearm = false;            // the timer; the caller has a reference for that
};

/// Turns: sets the resource aside for this thread (core/machine_turns.cpp). Not inlined: a
/// coroutine at the head of the line grants no turns.
[[gnu::noinline]] passed set_aside(keeper& k, instant now, resource* r) CENOTE_REQUIRES(k.lock) {
    if (!k.machine.set_aside(now, r->slot, k.leases.uses_since(r), lease_ledger::held(now, r),
                             r->owes, thread_that_returns(k, r)))
        return {};
    k.leases.take_uses(r);
    bool rearm = k.must_rearm_timer();
    if (rearm) k.add_ref();  // from here on another borrower may have the resource
    return {.aside = true, .rearm = rearm};
}

/// granted(), where the ledger has more to do than for a lease that is passed on. Not inlined:
/// rare.
[[gnu::noinline]] void grant(keeper& k, instant now, resource* r, const detail::waiter& w)
    CENOTE_REQUIRES(k.lock) {
    k.granted(now, r, borrower_of(w));
}

/// The lines of a waiter that its grant will use: they are cold after a long wait.
inline void prefetch_waiter(std::uint64_t cookie) {
    const auto* at = std::bit_cast<const std::byte*>(cookie);
    for (std::ptrdiff_t offset : {0, 64, 128}) __builtin_prefetch(at + offset);
}

/// In a full pool where only the line can change: the resource goes to the head of the line, or is
/// set aside for this thread.
passed pass_on(keeper& k, resource* r) noexcept CENOTE_EXCLUDES(k.lock) {
    pool_guard here(k.lock);
    if (!may_end_directly(k)) return {};
    instant now = k.now_in_order();
    std::uint64_t cookie = 0;
    keeper::changing bracket(k.sequence);
    if (k.machine.has_thread_at_head()) [[unlikely]] {
        if (passed aside = set_aside(k, now, r); aside.aside) return aside;
    } else if (k.before_acquire_may_block()) [[unlikely]] {
        return {};  // a worker has to check the lease
    }
    std::uint64_t uses = k.leases.uses_since(r);
    if (!k.machine.pass_on(now, r->slot, uses, lease_ledger::held(now, r), r->owes, cookie))
        return {};
    prefetch_waiter(k.machine.head_cookie());
    auto* w = std::bit_cast<detail::waiter*>(cookie);
    w->error = {};
    w->got = r;
    if (!k.leases.passed_on(now, r, uses, *w)) grant(k, now, r, *w);
    else if (k.lane.is_swept()) k.lane.sweep_by(k.machine.look(r->slot).expires_at);
    bool rearm = !k.is_timer_armed_by(k.leases.inspect_at());
    if (rearm) k.add_ref();
    return {.to = w, .rearm = rearm};
}

/// A coroutine or an operation whose lease before_acquire has to check. Until it is notified, its
/// lease keeps the keeper. Not inlined: it needs room on the stack.
[[gnu::noinline]] void check_and_notify(keeper& k, detail::waiter& who) noexcept
    CENOTE_EXCLUDES(k.lock) {
    pending_actions todo;
    todo.to_notify.add(who);
    k.carry_out(todo);
}

[[gnu::noinline]] void pass_on_and_notify(keeper& k, resource* r) noexcept CENOTE_EXCLUDES(k.lock) {
    passed p = pass_on(k, r);
    if (p.to == nullptr) {
        if (!p.aside) return end_clean_lease(k, r);
    } else if (k.needs_before_acquire(*p.to)) {
        check_and_notify(k, *p.to);
    } else {
        p.to->process.store(detail::no_process, std::memory_order_relaxed);
        p.to->notify();  // from here on the keeper may be gone
    }
    if (p.rearm) [[unlikely]]
        rearm_and_drop(k);
}

/// Ends a clean lease.
inline void release_clean(keeper& k, resource* r) noexcept CENOTE_EXCLUDES(k.lock) {
    return k.has_waiters() ? pass_on_and_notify(k, r) : put_back(k, r);
}

// before_release.

std::exception_ptr no_reset_to_make() noexcept {
    try {
        throw std::logic_error(
            "cenote: before_release returned reset_later, and the connector has no reset");
    } catch (...) {
        return std::current_exception();
    }
}

/// Calls before_release for a resource that its holder returns for reuse, and does what it says.
/// Returns the exception that it throws.
std::exception_ptr call_before_release(keeper& k, resource* r) noexcept {
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
    bool dirty = r->state == detail::condition::dirty;
    bool resets_now = dirty || k.fixed.reset_after <= core::duration{};
    if (said == verdict::reset_later && !k.can.reset) thrown = no_reset_to_make();
    else if (said == verdict::reset_later && resets_now) said = verdict::reset;
    switch (said) {
        case verdict::keep:
            // A dirty resource stays dirty. An unused one owes what it owed.
            r->owes = r->owes && r->state == detail::condition::unused;
            return nullptr;
        case verdict::reset_later:
            if (thrown != nullptr) break;
            r->owes = true;
            return nullptr;
        case verdict::reset:
            r->state = detail::condition::dirty;
            r->owes = false;
            return nullptr;
        case verdict::suspect:
            k.suspect(r);
            r->state = detail::condition::broken;
            return nullptr;
        case verdict::discard:
        case verdict::final: break;
    }
    r->state = detail::condition::rejected;
    return thrown;
}

}  // namespace

void keeper::return_to_machine(instant now, resource* r, core::condition how,
                               const std::optional<core::duration>& held, std::uint64_t thread) {
    lane.note_return(r);
    machine.release(now, r->slot, how, leases.take_uses(r), held, out, thread);
}

bool keeper::call_before_acquire(resource* r) noexcept {
    try {
        return r->made_by->before_acquire(*r);
    } catch (...) {
        return false;
    }
}

}  // namespace cenote::shell

namespace cenote::detail {

using core::instant;
using shell::keeper;
using shell::keeper_of;

void gate::release(resource* r) noexcept {
    if (this_threads_mark == nullptr) register_without_allocating();  // for the next time
    bool plain = r->state == condition::clean && !has_before_release_ && !shell::is_foreign(r);
    return plain ? shell::release_clean(keeper_of(this), r) : release_slowly(r, nullptr);
}

/// Not inlined: it needs room on the stack.
[[gnu::noinline]] void gate::release_slowly(resource* r, const std::exception_ptr* error) noexcept {
    keeper& k = keeper_of(this);
    std::exception_ptr cause = error == nullptr ? nullptr : *error;
    bool unused = r->state == condition::unused;
    if (has_before_release_) {
        std::exception_ptr thrown = shell::call_before_release(k, r);
        if (cause == nullptr) cause = std::move(thrown);
    }
    if (shell::is_foreign(r)) return shell::forsake(r);
    // Without before_release, put() and release() have tried this.
    bool may_put = has_before_release_ && (!r->owes || shelf_.accepts_owing());  // shelf: rule 4
    if (may_put && put_on_shelf(r)) return;
    core::condition how = shell::condition_of(r, unused);
    r->state = condition::clean;
    if (has_before_release_ && shell::is_reusable(how)) return shell::release_clean(k, r);
    shell::end_lease(k, r, how, cause);
}

void gate::discard(resource* r, const std::exception_ptr& cause) noexcept {
    if (this_threads_mark == nullptr) register_without_allocating();  // for the next time
    r->state = condition::broken;
    release_slowly(r, &cause);
}

resource* gate::return_taken(resource* r) noexcept {
    keeper& k = keeper_of(this);
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept { k.lane.accept_returned(now, r); });
    return nullptr;
}

void gate::return_and_leave(resource* r, const gate* outer) noexcept {
    return_taken(r);
    this_threads_mark->leave(outer);
}

resource* gate::check_taken(resource* r) noexcept {
    if (r->seen->hits.load(std::memory_order_relaxed) % sample == 0)
        r->seen->leased_at.store(now().time_since_epoch().count(), std::memory_order_relaxed);
    if (keeper_of(this).passes_before_acquire(r)) return r;
    r->state = condition::unfit;
    release(r);
    return nullptr;
}

std::unique_ptr<resource> gate::detach(resource* r) noexcept {
    keeper& k = keeper_of(this);
    // In the child of a fork, the caller may detach the parent's resource and not use it.
    if (shell::is_foreign(r)) {
        shell::pool_guard here(k.lock);
        if (k.forks.must_restart()) k.calls.in(r->slot) = nullptr;
        else k.forks.give_up(r);
        return std::unique_ptr<resource>(r);
    }
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        k.lane.note_return(r);
        k.calls.in(r->slot) = nullptr;
        k.machine.detach(now, r->slot, k.out);
    });
    return std::unique_ptr<resource>(r);
}

}  // namespace cenote::detail

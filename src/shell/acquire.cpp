// How a lease is acquired: by a thread here, from try_acquire to a wait in line; and the requests
// to the machine that coroutines and operations (acquire_async.cpp) make as well.
#include <bit>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/machine_express.hpp"
#include "shell/operations.hpp"
#include "shell/wait_thread.hpp"

namespace cenote::shell {

using core::instant;
using core::never;
using detail::resource;

// Requests to the machine, for waiters of every kind.

namespace {

core::request request_of(const detail::waiter& who, std::uint64_t holder) {
    return {.deadline = who.deadline,
            .cookie = std::bit_cast<std::uint64_t>(&who),
            .bypassable = true,
            .ticket = who.ticket,
            .arrived = who.arrived,
            .cannot_wait = who.cannot_wait,
            .queues = who.wants.queues,
            .rank = who.wants.rank,
            .holder = holder,
            .thread = who.holder};
}

/// Gives a waiter its place in the order of arrival. False: it had one, and comes again.
bool draw_ticket(core::machine& machine, instant now, detail::waiter& who) {
    if (who.ticket != 0) return false;
    who.ticket = machine.draw_ticket();
    arrive(who, now);
    return true;
}

void note_answer(keeper& k, const core::answer& a, detail::waiter& who) CENOTE_REQUIRES(k.lock) {
    if (a.what == core::answer::kind::waiting) who.place = std::bit_cast<std::uint64_t>(a.waiter);
    who.error = a.error;
    if (a.nested && k.events.wants(event_kind::nested_acquire))
        k.events.add({.kind = event_kind::nested_acquire, .pool = k.name(), .site = who.site});
}

inline bool was_suspended(const keeper& k, instant now) CENOTE_REQUIRES(k.lock) {
    return k.can_probe && k.clock == nullptr && k.suspension.happened(now, time_since_boot());
}

/// Lends to a waiter what `lend` takes from the machine, without an action. False: nothing has
/// changed.
template <class Lend>
[[gnu::always_inline]] inline bool lend_directly(keeper& k, detail::waiter& who, Lend lend) noexcept
    CENOTE_EXCLUDES(k.lock) {
    bool rearm = false;
    {
        pool_guard here(k.lock);
        if (k.forks.must_restart() || who.stopped || k.has_jobs()) return false;
        instant now = k.now_in_order();
        who.arrived = now;
        if (was_suspended(k, now)) return false;
        keeper::changing bracket(k.sequence);
        core::slot_id id = core::no_slot;
        if (!lend(now, id)) return false;
        // If the resource is unfit, the waiter goes to its place in line.
        if (k.has_before_acquire()) draw_ticket(k.machine, now, who);
        who.got = k.calls.in(id);
        who.error = {};
        k.granted(now, who.got, borrower_of(who));
        rearm = k.must_rearm_timer();
    }
    bool pending = k.needs_before_acquire(who);
    who.process.store(pending ? detail::this_process : detail::no_process,
                      std::memory_order_relaxed);
    if (rearm) [[unlikely]]
        k.enter([](instant) noexcept {});  // the lease keeps the keeper alive
    return true;
}

}  // namespace

bool lend_at_once(keeper& k, detail::waiter& who) noexcept {
    bool plain = who.what == detail::wait_target::lease && who.ticket == 0 && !who.wants_several &&
                 !(who.asynchronous && k.before_acquire_may_block());
    // What is on the shelf is lent first, by request_lease().
    return plain && lend_directly(k, who, [&](instant now, core::slot_id& id) {
               k.lock.is_held();
               if (k.lane.is_swept() || !k.machine.lend_now(now, id)) return false;
               if (k.takes_turns) k.machine.lent_to(now, id, who.holder != 0, who.wants.rank);
               return true;
           });
}

/// Turns: lends a thread the resource that was set aside for it (core/machine_turns.cpp). False:
/// nothing has changed. The first look needs no lock: the thread sees what it has set aside itself.
CENOTE_UNCHECKED_LOCKING static bool claim(keeper& k, detail::waiter& who) noexcept {
    bool plain = k.machine.has_aside() && who.ticket == 0;
    return plain && lend_directly(k, who, [&](instant now, core::slot_id& id) {
               k.lock.is_held();
               return k.machine.claim(now, who.holder, who.wants.rank, id);
           });
}

bool join_line(keeper& k, detail::waiter& who) noexcept {
    bool plain = who.what == detail::wait_target::lease && who.ticket == 0 && !who.wants_several &&
                 !who.cannot_wait && who.wants.queues;
    if (!plain) return false;
    pool_guard here(k.lock);
    if (k.forks.must_restart() || who.stopped) return false;
    instant now = k.now_in_order();
    arrive(who, now);
    // Otherwise the workplace has something to do.
    if (k.has_jobs() || !k.is_timer_armed_by(who.deadline)) return false;
    if (who.holder != 0 && name_holders(k, who.holder, 1) != 0) return false;
    core::waiter in_line{.cookie = std::bit_cast<std::uint64_t>(&who),
                         .arrived = now,
                         .deadline = who.deadline,
                         .rank = who.wants.rank,
                         .bypassable = true,
                         .is_thread = who.holder != 0};
    core::waiter_id id;
    keeper::changing bracket(k.sequence);
    if (!k.machine.queue_up(now, in_line, id)) return false;
    who.ticket = in_line.ticket;
    who.place = std::bit_cast<std::uint64_t>(id);
    who.got = nullptr;
    who.error = {};
    who.process.store(detail::this_process, std::memory_order_relaxed);
    return true;
}

bool request_lease(keeper& k, instant now, detail::waiter& who) {
    who.got = nullptr;
    bool again = !draw_ticket(k.machine, now, who);
    notice_suspension_before_lending(k, now);
    if (resource* r = k.lane.take(now); r != nullptr) {
        k.leases.taken(now, r, borrower_of(who), k.lane.is_swept());
        who.got = r;
        return false;
    }
    core::request r = request_of(who, name_holders(k, who.holder, 1));
    r.again = again;
    core::answer a = k.machine.acquire(now, r, k.out);
    note_answer(k, a, who);
    if (a.what == core::answer::kind::granted) {
        who.got = k.calls.in(a.slot);
        k.granted(now, who.got, borrower_of(who));
    }
    return a.what == core::answer::kind::waiting;
}

void notice_suspension_before_lending(keeper& k, instant now) {
    bool lends = k.lane.is_swept() || k.machine.count(core::slot_state::idle) > 0;
    if (k.can_probe && lends) notice_suspension(k, now);
}

/// The machine is not told of leases from the shelf one by one. A thread without a lease can be
/// part of no deadlock, which is the usual case.
std::uint64_t name_holders(keeper& k, std::uint64_t thread, std::size_t wanted) {
    bool waits = k.machine.anyone_waits() || k.machine.count(core::slot_state::idle) < wanted;
    if (thread == 0 || !waits) return 0;
    return k.leases.name_holders(thread, k.machine) ? thread : 0;
}

// Threads.

namespace {

/// A sleeping thread calls tick() itself if it is not woken within this time after its deadline.
constexpr auto backstop = std::chrono::milliseconds{20};

/// Sleeps until `me` has an answer.
void sleep(keeper& k, thread_waiter& me, const std::stop_token& stop) {
    std::stop_callback on_stop(stop, [&] {
        k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
            k.machine.cancel(now, std::bit_cast<core::waiter_id>(me.place), k.out);
        });
    });
    // On a manual clock no time passes while the thread sleeps.
    instant until = k.clock == nullptr ? core::after(me.deadline, backstop) : never;
    for (;;) {
        if (k.clock != nullptr && !me.is_done() && k.work->make_progress(me.deadline)) continue;
        if (me.sleep(until) == thread_waiter::woken::done) return;
        k.tick();
        until = never;
    }
}

/// Requests one lease. True: `me` waits in line. `unfit`: the lease that it was granted before, if
/// any. It ends in the same step, so that `me` returns to its place in line.
bool request_one(keeper& k, thread_waiter& me, resource* unfit) {
    if (unfit == nullptr && k.has_waiters()) {
        if (k.takes_turns && claim(k, me)) return false;
        if (join_line(k, me)) return true;
    }
    if (unfit == nullptr && !k.has_waiters() && lend_at_once(k, me)) return false;
    bool waits = false;
    // An attempt above has read the clock. A manual clock may have moved since, past the deadline,
    // and with the old time the caller would wait for an advance() that has ended.
    instant read = unfit == nullptr && k.clock == nullptr ? me.arrived : keeper::unread;
    try {
        k.enter_with_room(
            [&](instant now) CENOTE_REQUIRES(k.lock) {
                if (unfit != nullptr)
                    k.return_to_machine(now, unfit, core::condition::unfit, std::nullopt);
                waits = request_lease(k, now, me);
            },
            read);
    } catch (...) {
        if (unfit != nullptr) {
            unfit->state = detail::condition::unfit;
            k.put(unfit);
        }
        throw;
    }
    return waits;
}

/// Requests several leases at once. True: `me` waits in line.
bool request_many(keeper& k, thread_waiter& me) {
    core::answer a;
    k.enter_with_room([&](instant now) CENOTE_REQUIRES(k.lock) {
        bool again = !draw_ticket(k.machine, now, me);
        notice_suspension_before_lending(k, now);
        k.lane.collect(now);  // the machine must see all resources
        core::request r = request_of(me, name_holders(k, me.holder, me.into.size()));
        r.bypassable = false;
        r.again = again;
        r.count = static_cast<std::uint32_t>(me.into.size());
        a = k.machine.acquire(now, r, k.out);
        note_answer(k, a, me);
    });
    return a.what == core::answer::kind::waiting;
}

/// If one resource is unfit, all leases end, and the borrower returns to its place in line.
bool all_pass_before_acquire(keeper& k, std::span<resource*> all) noexcept {
    bool fit = true;
    for (resource* r : all) {
        if (k.passes_before_acquire(r)) continue;
        r->state = detail::condition::unfit;
        fit = false;
    }
    if (fit) return true;
    for (resource*& r : all) {
        if (r->state == detail::condition::clean) r->state = detail::condition::unused;
        k.put(std::exchange(r, nullptr));
    }
    return false;
}

/// Fills `into`, or nothing.
bool acquire(keeper& k, const detail::acquire_request& request, std::span<resource*> into,
             detail::refusal& why) {
    thread_waiter me(into);
    me.site = request.site;
    me.wants = request.terms;
    me.trace = request.trace;
    me.holder = detail::this_thread();
    me.timeout = request.timeout;
    me.deadline = request.deadline;
    me.cannot_wait = refuses_to_block(k);
    resource* unfit = nullptr;
    for (;;) {
        k.ensure_ready();
        me.rearm();
        bool waits = me.wants_several ? request_many(k, me) : request_one(k, me, unfit);
        // While it waits, only the keeper may read or write `me`.
        if (waits || me.error == errc::deadlock) may_block(k, request.site);
        if (waits) sleep(k, me, request.stop);
        if (me.wants_several) {
            if (me.filled == 0) break;
            if (all_pass_before_acquire(k, into)) return true;
        } else {
            if (me.got == nullptr) break;
            into.front() = me.got;
            if (k.passes_before_acquire(me.got)) return true;
            unfit = me.got;
        }
    }
    why = {.error = me.error, .since = me.arrived};
    k.report_refusal(me);
    return false;
}

}  // namespace

}  // namespace cenote::shell

namespace cenote::detail {

using core::instant;
using shell::keeper;
using shell::keeper_of;

// An acquire may allocate, so it registers the thread for its releases.

resource* gate::acquire(const acquire_request& request, refusal& why) {
    if (this_threads_mark == nullptr) register_this_thread();
    resource* got = nullptr;
    return shell::acquire(keeper_of(this), request, {&got, 1}, why) ? got : nullptr;
}

bool gate::acquire_many(const acquire_request& request, std::span<resource*> into, refusal& why) {
    if (this_threads_mark == nullptr) register_this_thread();
    return shell::acquire(keeper_of(this), request, into, why);
}

resource* gate::try_acquire(std::source_location site, const lease_terms& terms,
                            std::uint64_t holder) {
    if (this_threads_mark == nullptr) register_this_thread();
    keeper& k = keeper_of(this);
    shell::borrower who{
        .site = site, .task = terms.task, .leak_after = terms.leak_after, .holder = holder};
    for (;;) {
        k.ensure_ready();
        resource* got = nullptr;
        k.enter_with_room([&](instant now) CENOTE_REQUIRES(k.lock) {
            shell::notice_suspension_before_lending(k, now);
            who.arrived = now;
            got = k.lane.take(now);
            if (got != nullptr) return k.leases.taken(now, got, who, k.lane.is_swept());
            if (auto slot = k.machine.try_acquire(now, k.out)) {
                got = k.calls.in(*slot);
                k.granted(now, got, who);
            }
        });
        if (got == nullptr || k.passes_before_acquire(got)) return got;
        // Another resource may be ready. Each round takes one out of the pool.
        got->state = condition::unfit;
        put(got);
    }
}

void gate::check_count(std::size_t count) const {
    std::size_t max = keeper_of(this).max_now;
    if (count >= 1 && count <= max) return;
    throw std::invalid_argument("cenote: acquire_many(" + std::to_string(count) + ") of pool \"" +
                                name_ + "\": must be between 1 and max (" + std::to_string(max) +
                                ")");
}

}  // namespace cenote::detail

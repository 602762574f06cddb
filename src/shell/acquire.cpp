// How a thread acquires: it asks, sleeps if it has to, and has before_acquire look at what it got.
//
// Asking for a lease is the same for waiters without a thread (await.cpp).
#include <bit>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/machine_express.hpp"
#include "shell/around.hpp"
#include "shell/enter.hpp"
#include "shell/wait_thread.hpp"

namespace cenote::shell {

using core::instant;
using core::never;
using detail::resource;

namespace {

/// A sleeping thread looks at the clock itself if nothing has woken it so long after its deadline.
constexpr auto backstop = std::chrono::milliseconds{20};

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

/// A waiter that comes for the first time gets its place now. False: it had one.
bool draw_ticket(core::machine& machine, instant now, detail::waiter& who) {
    if (who.ticket != 0) return false;
    who.ticket = machine.draw_ticket();
    who.arrived = now;
    return true;
}

/// A thread that holds a lease waits for another one.
void note_nested(keeper& k, std::source_location site) {
    if (!k.news.wants(event_kind::nested_acquire)) return;
    k.news.note({.kind = event_kind::nested_acquire, .pool = k.name(), .site = site});
}

void note_answer(keeper& k, const core::answer& a, detail::waiter& who) {
    who.place = std::bit_cast<std::uint64_t>(a.waiter);
    who.error = a.error;
    if (a.nested) note_nested(k, who.site);
}

/// Waits until `me` is answered.
void wait(keeper& k, thread_waiter& me, const std::stop_token& stop) {
    std::stop_callback on_stop(stop, [&] {
        k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
            k.machine.cancel(now, std::bit_cast<core::waiter_id>(me.place), k.out);
        });
    });
    // Under a manual clock no time passes while a thread sleeps.
    instant until = k.clock == nullptr ? core::after(me.deadline, backstop) : never;
    for (;;) {
        if (k.clock != nullptr && !me.is_done() && k.work->do_something(me.deadline)) continue;
        switch (me.sleep(until)) {
            case thread_waiter::woken::done: return;
            case thread_waiter::woken::late:
                k.tick();
                until = never;
                break;
        }
    }
}

/// Asks for a lease. True: `me` is in line. `rejected`: what it got before, which is unfit; it goes
/// in the same step, and `me` back to its place.
bool ask(keeper& k, thread_waiter& me, resource* rejected) {
    me.rearm();
    if (rejected == nullptr && k.has_waiters()) {
        if (k.takes_turns && claim(k, me)) return false;
        if (join_line(k, me)) return true;
    }
    if (rejected == nullptr && !k.has_waiters() && lend_at_once(k, me)) return false;
    bool in_line = false;
    try {
        k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
            // The only step that can fail, before anything has changed.
            k.machine.make_room(k.out);
            if (rejected != nullptr)
                k.give_to_machine(now, rejected, core::condition::unfit, std::nullopt);
            in_line = ask_for_lease(k, now, me);
        });
    } catch (...) {
        if (rejected != nullptr) {
            rejected->state = detail::condition::unfit;
            k.release(rejected);
        }
        throw;
    }
    return in_line;
}

resource* acquire(keeper& k, const detail::acquire_request& request, errc& why) {
    thread_waiter me;
    me.site = request.site;
    me.wants = request.terms;
    me.holder = detail::this_thread();
    me.deadline = request.deadline;
    me.cannot_wait = cannot_wait_here(k);
    resource* rejected = nullptr;
    for (;;) {
        k.get_ready();
        bool waits = ask(k, me, rejected);
        if (waits || me.error == errc::deadlock) may_block(k, request.site);
        if (waits) wait(k, me, request.stop);
        if (me.got == nullptr) break;
        if (k.admits(me.got)) return me.got;
        rejected = me.got;  // goes, and its borrower back to its place in line
    }
    why = me.error;
    k.refused(why);
    return nullptr;
}

/// What was granted at once comes like everything else: it is told.
core::answer ask_for_many(keeper& k, many_waiter& me) {
    me.rearm();
    me.filled = 0;
    core::answer a;
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        k.machine.make_room(k.out);
        bool again = !draw_ticket(k.machine, now, me);
        notice_suspension_before_lending(k, now);
        k.lane.collect(now);  // the machine is to see all there are
        core::request r = request_of(me, name_holders(k, me.holder, me.into.size()));
        r.bypassable = false;
        r.again = again;
        r.count = static_cast<std::uint32_t>(me.into.size());
        a = k.machine.acquire(now, r, k.out);
        note_answer(k, a, me);
    });
    return a;
}

/// If one of them is unfit, all go back, and their borrower to its place in line.
bool admits_all(keeper& k, std::span<resource*> all) noexcept {
    bool fit = true;
    for (resource* r : all) {
        if (k.admits(r)) continue;
        r->state = detail::condition::unfit;
        fit = false;
    }
    if (fit) return true;
    for (resource*& r : all) {
        if (r->state == detail::condition::clean) r->state = detail::condition::unused;
        k.release(std::exchange(r, nullptr));
    }
    return false;
}

bool acquire_many(keeper& k, const detail::acquire_request& request, std::span<resource*> into,
                  errc& why) {
    many_waiter me(into);
    me.site = request.site;
    me.wants = request.terms;
    me.holder = detail::this_thread();
    me.deadline = request.deadline;
    me.cannot_wait = cannot_wait_here(k);
    for (;;) {
        k.get_ready();
        // Once it waits, `me` is for others to write until it has been told.
        core::answer said = ask_for_many(k, me);
        bool refused_at_once = said.what == core::answer::kind::refused;
        bool waits = said.what == core::answer::kind::waiting;
        if (waits || said.error == errc::deadlock) may_block(k, request.site);
        if (!refused_at_once) wait(k, me, request.stop);
        if (me.filled == 0) break;
        if (admits_all(k, into)) return true;
    }
    why = me.error;
    k.refused(why);
    return false;
}

resource* try_acquire(keeper& k, std::source_location site, const detail::lease_terms& terms,
                      std::uint64_t holder) {
    borrower who{.site = site, .how = terms, .holder = holder};
    for (;;) {
        k.get_ready();
        resource* got = nullptr;
        k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
            k.machine.make_room(k.out);
            notice_suspension_before_lending(k, now);
            got = k.lane.take(now);
            if (got != nullptr) return k.leases.taken(now, got, who, k.lane.is_swept());
            if (auto slot = k.machine.try_acquire(now, k.out)) {
                got = k.calls.in(*slot);
                k.granted(now, got, who);
            }
        });
        if (got == nullptr || k.admits(got)) return got;
        // Unfit: another one may be ready. Each turn takes one out of the pool.
        got->state = detail::condition::unfit;
        k.release(got);
    }
}

}  // namespace

// For waiters of every kind, under the lock.

bool join_line(keeper& k, detail::waiter& who) {
    bool plain = who.what == detail::wait_target::lease && who.ticket == 0 && !who.wants_several &&
                 !who.cannot_wait && who.wants.queues;
    if (!plain) return false;
    holding here(k.lock);
    if (k.forks.is_behind() || who.stopped) return false;
    instant now = k.now_in_order();
    if (who.timeout.count() >= 0) who.deadline = core::after(now, who.timeout);
    // The workplace has something to do, or must mind the clock from earlier on.
    if (k.has_jobs() || !k.is_minded_until(who.deadline)) return false;
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
    who.arrived = now;
    who.ticket = in_line.ticket;
    who.place = std::bit_cast<std::uint64_t>(id);
    who.got = nullptr;
    who.error = {};
    who.process.store(detail::this_process, std::memory_order_relaxed);
    return true;
}

bool was_suspended(const keeper& k, instant now) {
    return k.can_probe && k.clock == nullptr && k.suspension.happened(now, time_since_boot());
}

bool lend_at_once(keeper& k, detail::waiter& who) {
    bool plain = who.what == detail::wait_target::lease && who.ticket == 0 && !who.wants_several &&
                 !k.looks_before_acquire();
    if (!plain) return false;
    bool rouse = false;
    {
        holding here(k.lock);
        if (k.forks.is_behind() || who.stopped || k.has_jobs()) return false;
        instant now = k.now_in_order();
        // What lies on the shelf goes first, and comes the long way.
        if (k.lane.is_swept() || was_suspended(k, now)) return false;
        keeper::changing bracket(k.sequence);
        core::slot_id id = core::no_slot;
        if (!k.machine.lend_now(now, id)) return false;
        if (k.takes_turns) k.machine.lent_to(now, id, who.holder != 0, who.wants.rank);
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

bool ask_for_lease(keeper& k, instant now, detail::waiter& who) {
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

/// Only if it is worth a look at one more clock.
void notice_suspension_before_lending(keeper& k, instant now) {
    bool lends = k.lane.is_swept() || k.machine.count(core::slot_state::idle) > 0;
    if (k.can_probe && lends) notice_suspension(k, now);
}

/// Leases from the shelf have passed the machine by, so it is told who has what. A thread that has
/// nothing can be part of no deadlock: that is the usual case.
std::uint64_t name_holders(keeper& k, std::uint64_t thread, std::size_t wanted) {
    bool waits = k.machine.anyone_waits() || k.machine.count(core::slot_state::idle) < wanted;
    if (thread == 0 || !waits) return 0;
    return k.leases.name_holders(thread, k.machine) ? thread : 0;
}

}  // namespace cenote::shell

namespace cenote::detail {

using shell::keeper_of;

// A borrower that acquires may allocate, so this is the place to prepare for the release.

resource* gate::acquire(const acquire_request& request, errc& why) {
    if (this_threads_mark == nullptr) register_this_thread();
    return shell::acquire(keeper_of(this), request, why);
}

resource* gate::try_acquire(std::source_location site, const lease_terms& terms,
                            std::uint64_t holder) {
    register_this_thread();
    return shell::try_acquire(keeper_of(this), site, terms, holder);
}

bool gate::acquire_many(const acquire_request& request, std::span<resource*> into, errc& why) {
    register_this_thread();
    shell::keeper& k = keeper_of(this);
    if (into.size() == 1) return (into.front() = shell::acquire(k, request, why)) != nullptr;
    return shell::acquire_many(k, request, into, why);
}

void gate::check_count(std::size_t count) const {
    std::size_t max = keeper_of(this).max_now;
    if (count >= 1 && count <= max) return;
    throw std::invalid_argument("cenote: acquire_many(" + std::to_string(count) + ") of pool \"" +
                                name_ + "\": must be between 1 and max (" + std::to_string(max) +
                                ")");
}

}  // namespace cenote::detail

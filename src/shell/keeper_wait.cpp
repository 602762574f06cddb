// The keeper and those who do not wait as threads: coroutines and Asio operations, for a lease or
// for the whole pool.
#include <bit>
#include <new>
#include <optional>
#include <utility>

#include "shell/enter.hpp"
#include "shell/keeper.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;

bool keeper::ask(detail::waiter& who) {
    get_ready();
    if (who.what == detail::awaited_thing::drained) close();
    bool waits = false;
    errands todo;
    {
        std::lock_guard lock(mutex_);
        if (is_behind()) [[unlikely]]
            start_anew(todo);
        instant now = this->now();
        if (who.timeout.count() >= 0) who.deadline = core::after(now, who.timeout);
        if (queue_up(now, who)) return true;
        decide(now, [&](instant at) { waits = ask_now(at, who); }, todo);
    }
    if (todo.any()) carry_out(todo);
    return waits || (is_unseen(who) && !look_here(who));
}

/// True: it waits.
bool keeper::ask_now(instant now, detail::waiter& who) {
    machine_.make_room(out_);
    bool waits =
        who.what == detail::awaited_thing::lease ? ask_for_lease(now, who) : watch_for(now, who);
    if (!waits && who.got == nullptr) keep_for(who);
    who.process.store(waits || is_unseen(who) ? detail::this_process : detail::no_process,
                      std::memory_order_relaxed);
    return waits;
}

// Express, under the lock: only the line moves, and nothing follows that anybody has to be told.

/// False: nothing has changed.
bool keeper::queue_up(instant now, detail::waiter& who) {
    bool plain = who.what == detail::awaited_thing::lease && who.ticket == 0 && !who.stopped &&
                 !who.wants_several && !who.cannot_wait && who.wants.queues;
    // The workplace has something to do, or must mind the clock from earlier on.
    if (!plain || has_jobs() || who.deadline < looked_for_ || !machine_.has_room(out_))
        return false;
    std::uint64_t holder = who.holder == 0 ? 0 : note_who_holds(who.holder, 1);
    core::waiter_id id;
    changing bracket(sequence_);
    if (!machine_.queue_up(now,
                           {.deadline = who.deadline,
                            .cookie = std::bit_cast<std::uint64_t>(&who),
                            .bypassable = true,
                            .rank = who.wants.rank,
                            .holder = holder},
                           id))
        return false;
    who.arrived = now;
    who.ticket = machine_.last_ticket();
    who.place = std::bit_cast<std::uint64_t>(id);
    who.got = nullptr;
    who.error = {};
    who.process.store(detail::this_process, std::memory_order_relaxed);
    return true;
}

/// Whom to tell; null: nothing has changed.
detail::waiter* keeper::pass_on(instant now, resource* r, errands& todo) {
    // Leases from before a recall, and resources that before_acquire looks at, take the long way.
    if (has_jobs() || recalled_ != 0 || looks_before_acquire_ || umpire_.needs_telling())
        return nullptr;
    std::optional<core::duration> held;
    if (auto since = r->seen->leased_at.load(std::memory_order_relaxed); since != 0)
        held = now.time_since_epoch() - core::duration{since};
    place& p = places_[r->slot];
    std::uint64_t hits = r->seen->hits.load(std::memory_order_relaxed);
    std::uint64_t cookie = 0;
    changing bracket(sequence_);
    if (!machine_.pass_on(now, r->slot, hits - p.hits_known, held, cookie)) return nullptr;
    auto* w = std::bit_cast<detail::waiter*>(cookie);
    w->error = {};
    w->got = r;
    prepare(now, r, borrower_of(*w));
    if (leaks_at() < looked_for_) {
        rouse(todo);
        if (todo.needs_keeper()) add_ref();
    }
    return w;
}

/// Whoever asked looks at what it got at once, until something is fit. False: it waits after all.
bool keeper::look_here(detail::waiter& who) {
    const detail::process_number asked_in = detail::this_process;
    while (who.got != nullptr && !admits(who.got)) {
        if (detail::this_process != asked_in) {  // forked by the connector
            join_anew(who, who.got);
            return !ask(who);
        }
        errands todo;
        bool waits = ask_again(who, todo);
        if (todo.any()) carry_out(todo);
        if (waits) return false;
    }
    who.process.store(detail::no_process, std::memory_order_relaxed);
    return true;
}

/// Whether an answer is still to come: it is in line, or its resource has to be looked at, and not
/// where it waits.
bool keeper::ask_for_lease(instant now, detail::waiter& who) {
    if (ask_for(now, who)) return !who.stopped || !take_out(now, who);  // stopped before it came
    if (who.got == nullptr || !looks_elsewhere_) return false;
    enqueue(who);
    return true;
}

/// Takes somebody out of the line, as canceled and without a word. False: it is not there.
bool keeper::take_out(instant now, detail::waiter& who) {
    bool said_before = std::exchange(who.withdrawn, true);
    bool was_there = machine_.cancel(now, std::bit_cast<core::waiter_id>(who.place), out_);
    who.withdrawn = was_there || said_before;
    if (was_there) who.error = errc::canceled;
    return was_there;
}

void keeper::cancel(detail::waiter& who) noexcept {
    if (cancel_forgotten(who)) return;
    bool was_watching = false;
    enter([&](instant now) noexcept {
        who.stopped = true;
        machine_.cancel(now, std::bit_cast<core::waiter_id>(who.place), out_);
        was_watching = unwatch(who);
        if (!was_watching) return;
        who.error = errc::canceled;
        who.process.store(detail::no_process, std::memory_order_relaxed);
        keep_for(who);
    });
    if (was_watching) who.notify();
}

// Waiting for the whole pool without a thread.

bool keeper::watch_for(instant now, detail::waiter& who) {
    if (who.what == detail::awaited_thing::ready) machine_.warm(now, out_);
    else machine_.tick(now, out_);
    if (who.stopped) who.error = errc::canceled;
    if (who.stopped || has_come(now, who)) return false;
    who.next = std::exchange(watching_, &who);
    return true;
}

/// Whether it has what it waits for, or waits in vain.
bool keeper::has_come(instant now, detail::waiter& who) const {
    if (who.what == detail::awaited_thing::ready) {
        if (machine_.closed()) who.error = errc::closed;
        if (machine_.closed() || machine_.ready()) return true;
        if (who.deadline > now) return false;
        who.error = open_error_ == nullptr ? errc::timed_out : errc::open_failed;
        return true;
    }
    who.left = machine_.count(core::slot_state::leased);
    return machine_.drained() || who.deadline <= now || work_->stopped();
}

void keeper::look_for_watchers(instant now, errands& todo) {
    for (detail::waiter** at = &watching_; *at != nullptr;) {
        detail::waiter* w = *at;
        if (!has_come(now, *w)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        keep_for(*w);
        todo.add(*w);
    }
}

bool keeper::unwatch(detail::waiter& who) {
    for (detail::waiter** at = &watching_; *at != nullptr; at = &(*at)->next) {
        if (*at != &who) continue;
        *at = who.next;
        return true;
    }
    return false;
}

bool keeper::withdraw(detail::waiter& who) noexcept {
    if (withdraw_forgotten(who)) return true;
    bool was_there = false;
    resource* unseen = nullptr;
    enter([&](instant now) noexcept {
        who.withdrawn = true;
        was_there = take_out(now, who);
        if (was_there || !unqueue(who)) return;
        was_there = true;
        unseen = std::exchange(who.got, nullptr);
    });
    if (unseen != nullptr) {
        unseen->state = detail::condition::unused;
        release(unseen);
    }
    return was_there;
}

// What before_acquire still has to look at for them, outside the lock: on a thread of the pool, or,
// if that is quick, wherever it is granted.

/// The keeper is there if it is: what is unseen is leased.
bool keeper::is_unseen(const detail::waiter& who) const {
    return who.asynchronous && who.got != nullptr && looks_before_acquire_;
}

/// False: what it got is unfit. Then it is in line again, or comes once more in `todo`: behind all
/// others, and not in a call within this one, however many are unfit.
bool keeper::admit(detail::waiter& who, errands& todo) noexcept {
    if (admits(who.got)) return true;
    if (is_forgotten(who)) return false;  // forked by the connector
    if (!ask_again(who, todo)) todo.add(who);
    return false;
}

/// Sends back what is unfit, and its borrower to its place in line. True: it waits there, and may
/// be gone.
bool keeper::ask_again(detail::waiter& who, errands& todo) noexcept {
    resource* unfit = who.got;
    bool waits = false;
    auto give_back = [&](instant now) {
        give_to_machine(now, unfit, core::condition::unfit, std::nullopt);
        who.got = nullptr;
    };
    errands more;
    try {
        decide(
            [&](instant now) {
                machine_.make_room(out_);
                give_back(now);
                who.error = errc::canceled;
                if (!who.withdrawn && !who.stopped) waits = ask_for(now, who);  // not meanwhile
                if (!waits && who.got == nullptr) keep_for(who);
            },
            more);
    } catch (const std::bad_alloc&) {
        decide(
            [&](instant now) noexcept {
                give_back(now);
                who.error = errc::open_failed;
                keep_for(who);
            },
            more);
    }
    while (detail::waiter* other = more.pop()) todo.add(*other);
    if (more.any()) carry_out(more);
    return waits;
}

}  // namespace cenote::shell

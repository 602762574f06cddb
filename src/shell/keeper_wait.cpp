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
    enter([&](instant now) {
        machine_.make_room(out_);
        if (who.timeout.count() >= 0) who.deadline = core::after(now, who.timeout);
        waits = who.what == detail::awaited_thing::lease ? ask_for_lease(now, who)
                                                         : watch_for(now, who);
        if (!waits && who.got == nullptr) keep_for(who);
        who.process.store(waits ? detail::this_process : detail::no_process,
                          std::memory_order_relaxed);
    });
    return waits;
}

/// Whether an answer is still to come: it is in line, or its resource has to be looked at, which
/// does not happen where it waits.
bool keeper::ask_for_lease(instant now, detail::waiter& who) {
    if (ask_for(now, who)) return !who.stopped || !take_out(now, who);  // stopped before it came
    if (who.got == nullptr || !looks_before_acquire_) return false;
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
        return machine_.closed() || machine_.ready();
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
    if (unseen != nullptr) release(unseen);
    return was_there;
}

/// Has before_acquire look at a granted resource, on a thread of the pool.
void keeper::admit(detail::waiter& who) noexcept {
    while (!admits(who.got)) {
        if (is_forgotten(who)) return;  // forked by the connector
        resource* unfit = who.got;
        bool waits = false;
        try {
            enter([&](instant now) {
                machine_.make_room(out_);
                give_to_machine(now, std::exchange(unfit, nullptr), core::condition::unfit,
                                std::nullopt);
                who.got = nullptr;
                who.error = errc::canceled;
                if (who.withdrawn || who.stopped) return;  // meanwhile
                waits = ask_for(now, who);
            });
        } catch (const std::bad_alloc&) {
            unfit->state = detail::condition::unfit;
            release(unfit);
            who.got = nullptr;
            who.error = errc::open_failed;
        }
        if (waits) return;
        if (who.got == nullptr) break;
    }
    if (who.got == nullptr) keep_for(who);
    who.process.store(detail::no_process, std::memory_order_relaxed);
    who.notify();
}

}  // namespace cenote::shell

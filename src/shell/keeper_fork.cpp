// The keeper in the child of a fork: it begins again, empty, and lets go of what is the parent's.
//
// The child must not say a word on a connection that its parent uses as well. So whatever was open
// at the fork is foreign here: it is neither lent, probed, reset, closed nor destroyed. What nobody
// holds is forsaken when the pool is first used; what somebody holds, when he lets go of it. What
// vanished threads held, or were calling the connector on, is left alone: who knows in what state.
//
// All other threads are gone: those of the pool, and those who waited. Whoever waits without a
// thread is forgotten, and told nothing unless he asks: the parent's coroutines are not to go on
// here by themselves.
//
// The keeper's memory is never freed in the child. Too much may still refer to it: leases,
// coroutines, and references of threads that are gone.
#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "shell/enter.hpp"
#include "shell/keeper.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;

// Around the fork itself, with every lock of the library held.

void keeper::before_fork() noexcept { mutex_.lock(); }

void keeper::after_fork() noexcept { mutex_.unlock(); }

/// What cannot wait for the first use of the pool: the fast lane asks nobody. With nothing on the
/// shelf and no trace of a lease that allows a put, nothing foreign gets there.
void keeper::after_fork_in_child() noexcept {
    add_ref();
    for (std::size_t i = 0; i < traces_->size(); ++i)
        if ((*traces_)[i].limit.load(std::memory_order_relaxed) != 0)
            (*traces_)[i].limit.store(0, std::memory_order_relaxed);
    for (std::size_t i = 0; i < shelf_.size(); ++i)
        if (resource* r = shelf_.collect(i); r != nullptr) r->orphan = true;
    mutex_.unlock();
}

// When the pool is first used after it.

/// Throws std::bad_alloc; the next one tries again.
void keeper::catch_up() {
    if (is_behind()) enter([](instant) noexcept {});
}

/// Before anybody acquires: the minimum is opened as if the pool had just been made.
void keeper::get_ready() {
    catch_up();
    work_->start();
    if (!must_begin_.load(std::memory_order_relaxed)) return;
    enter([&](instant now) {
        if (must_begin_.exchange(false) && !machine_.closed()) machine_.start(now, out_);
    });
}

/// False: there is no memory to begin again. Then nothing of this process's is in the pool.
bool keeper::try_to_catch_up() noexcept {
    try {
        catch_up();
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

/// Without that memory it will be closed when it begins.
void keeper::close_unborn() noexcept {
    std::lock_guard lock(mutex_);
    shelf_.raise(detail::pool_closed);
}

/// Under the lock. Throws before it has begun, or half-way: then it goes on from there.
void keeper::start_anew(errands& todo) {
    if (std::exchange(disowned_in_, detail::this_process) != detail::this_process) disown_all();
    old_traces_.reserve(old_traces_.size() + 1);
    auto traces = std::make_unique<trace_array>(places_.size());
    instant now = this->now();
    if (!std::exchange(machine_is_gone_, true)) std::destroy_at(&machine_);
    std::construct_at(&machine_, settings_with(max()), abilities(), announcer_.wants_any(),
                      pick_seed(settings_), now);
    machine_is_gone_ = false;
    out_.clear();
    machine_.make_room(out_);
    machine_.make_places(places_.size(), out_);

    old_traces_.push_back(std::exchange(traces_, std::move(traces)));  // leases still write there
    forget_the_past();
    forgotten_ = std::exchange(open_error_, nullptr);
    todo.foreign = std::exchange(to_forsake_, nullptr);
    todo.foreign_end = forsaken_;
    if (todo.foreign != nullptr) forsaken_ = todo.foreign;
    if ((shelf_.raised() & detail::pool_closed) != 0) machine_.close(now, out_);
    out_.clear();  // observers have heard that
    must_begin_.store(true, std::memory_order_relaxed);
    lives_in_.store(detail::this_process, std::memory_order_release);
}

/// Sorts what is the parent's: what is held by somebody, perhaps, and what can be forsaken.
void keeper::disown_all() noexcept {
    resource* last = forsaken_;
    to_forsake_ = nullptr;
    auto disown = [&](resource* r, bool held) {
        resource*& list = held || r->busy ? inherited_ : to_forsake_;
        r->next_orphan = &list == &to_forsake_ && list == nullptr ? last : list;
        list = r;
    };
    for (resource* r = std::exchange(orphans_, nullptr); r != nullptr;) {
        resource* next = r->next_orphan;
        disown(r, false);
        r = next;
    }
    for (core::slot_id id = 0; id < places_.size(); ++id) {
        resource* r = std::exchange(places_[id].held, nullptr);
        if (r == nullptr) continue;
        disown(r, machine_.look(id).state == core::slot_state::leased && !r->orphan);
    }
}

void keeper::forget_the_past() noexcept {
    for (std::size_t i = 0; i < places_.size(); ++i) places_[i] = {};
    queue_ = {};
    admissions_ = {};
    orphan_count_ = 0;
    watching_ = nullptr;
    watchers_ = 0;
    // Not destroyed before: that would wait for threads that are gone.
    std::construct_at(&changed_);
    settles_ = 0;
    looked_for_ = core::long_ago;
    collected_.set(0);
    recalled_ = 0;
    recalled_at_ = core::long_ago;
    suspicion_ = core::long_ago;
    shelf_sweep_at_ = core::never;
    shelf_.raise(detail::sweeper_asleep);
    shelf_.lower(detail::somebody_waits | detail::recalling | detail::pool_paused |
                 detail::circuit_open | detail::no_maintenance);
    occupied_ = false;
    open_ended_at_ = core::long_ago;
    announcer_.start_anew();
    umpire_.start_anew();
    leaks_.start_anew();
    puts_judged_ = 0;
    work_->start_anew();
}

// What is the parent's.

bool keeper::is_foreign(const resource* r) { return r->process != detail::this_process; }

bool keeper::is_forgotten(const detail::waiter& who) {
    detail::process_number waits_in = who.process.load(std::memory_order_relaxed);
    return waits_in != detail::no_process && waits_in != detail::this_process;
}

/// It stays where it is, and its destructor does not run: it might say goodbye.
void keeper::forsake(resource* r) noexcept { r->made_by->forsake(*r); }

/// What a call brought that began before the fork and ends here.
void keeper::finish_foreign(const job& j, std::unique_ptr<resource> opened) noexcept {
    if (opened == nullptr) return;  // what the open kept of its connector stays: it is a copy
    if (j.which == core::verb::open) opened->made_by = detail::connector_ref::adopt(j.by);
    forsake(opened.get());
    std::lock_guard lock(mutex_);
    resource* r = opened.release();
    r->next_orphan = std::exchange(inherited_, r);
}

/// Whoever detaches it knows what he does.
std::unique_ptr<resource> keeper::detach_foreign(resource* r) noexcept {
    std::lock_guard lock(mutex_);
    if (is_behind()) {
        places_[r->slot].held = nullptr;
    } else {
        for (resource** at = &inherited_; *at != nullptr; at = &(*at)->next_orphan) {
            if (*at != r) continue;
            *at = r->next_orphan;
            break;
        }
    }
    return std::unique_ptr<resource>(r);
}

/// Whoever has forked while it asked, in what the pool called on its thread, is a newcomer here.
void keeper::join_anew(detail::waiter& me, resource*& rejected) noexcept {
    bool got_foreign = rejected != nullptr && is_foreign(rejected);
    if (got_foreign) forsake(std::exchange(rejected, nullptr));
    if (got_foreign || is_forgotten(me)) me.ticket = 0;
    me.process.store(detail::this_process, std::memory_order_relaxed);
}

/// Ends the wait of somebody whom nobody knows any more. True: there is nothing else to do.
bool keeper::cancel_forgotten(detail::waiter& who) noexcept {
    if (!is_forgotten(who)) return false;
    who.process.store(detail::no_process, std::memory_order_relaxed);
    if (resource* r = std::exchange(who.got, nullptr); r != nullptr) forsake(r);
    who.error = errc::canceled;
    who.stopped = true;
    keep_for(who);
    who.notify();
    return true;
}

bool keeper::withdraw_forgotten(detail::waiter& who) noexcept {
    if (!is_forgotten(who)) return false;
    who.process.store(detail::no_process, std::memory_order_relaxed);
    if (resource* r = std::exchange(who.got, nullptr); r != nullptr) forsake(r);
    return true;
}

}  // namespace cenote::shell

// The keeper: lock, clock and resources of one pool around its machine.
//
// Every way in is the same four steps, written once in enter(): lock, ask the machine, unlock,
// carry out. No user code (connector, observer, waiter) runs under the lock, because there is
// nowhere to write it.
//
// The keeper puts its parts together; what each knows is its own:
//
//     machine     decides
//     lane        the shelf of hot resources in front of the lock
//     leases      who holds what, since when
//     calls       what is in each slot, and which connector calls are to be made
//     opens       why the last calls failed
//     watchers    those who wait for the whole pool
//     news        what observers are told
//     strategy    what the breaker's strategy is told
//     forks       what belongs to the parent process
//     workplace   where connector calls run, and who minds the clock
//
// How leases come and go is written beside it: acquire.cpp (threads), await.cpp (waiters without a
// thread), release.cpp, end.cpp. Connector calls are in calls.cpp, commands of the user's in
// control.cpp, looks in look.cpp.
//
// What keeps a keeper alive (refs_): the pool object; every thread that works for it; every thread
// with errands that need it; and, as one, everything that is not vacant. The last one to go deletes
// it. So a lease needs no reference of its own and can outlive its pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

#include "cenote/detail/gate.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/testing.hpp"
#include "core/machine.hpp"
#include "shell/announcer.hpp"
#include "shell/call_queue.hpp"
#include "shell/errands.hpp"
#include "shell/fork.hpp"
#include "shell/fork_state.hpp"
#include "shell/job.hpp"
#include "shell/lane.hpp"
#include "shell/lane_pool.hpp"
#include "shell/lease_ledger.hpp"
#include "shell/lock.hpp"
#include "shell/open_log.hpp"
#include "shell/read_clock.hpp"
#include "shell/suspension.hpp"
#include "shell/umpire.hpp"
#include "shell/watchers.hpp"
#include "shell/workplace.hpp"

namespace cenote::shell {

class keeper final : public detail::gate {
public:
    using workplace_maker = std::function<std::unique_ptr<shell::workplace>(keeper&)>;

    /// Makes the keeper of a pool and starts its warm-up. Throws what gate::open throws.
    static keeper* open(const options& settings, std::unique_ptr<detail::any_connector> connector,
                        const workplace_maker& make_workplace);
    keeper(const keeper&) = delete;
    keeper& operator=(const keeper&) = delete;

    // The four steps. `ask` is given the time, under the lock.

    template <class Ask>
    void enter(Ask&& ask) noexcept(noexcept(ask(core::instant{}))) CENOTE_EXCLUDES(lock);
    /// All but the last: the caller carries out what follows.
    template <class Ask>
    void decide(Ask&& ask, errands& todo) noexcept(noexcept(ask(core::instant{})))
        CENOTE_EXCLUDES(lock);
    /// The same for a caller that has the lock, in a keeper that is not behind.
    template <class Ask>
    void decide(core::instant now, Ask&& ask,
                errands& todo) noexcept(noexcept(ask(core::instant{}))) CENOTE_REQUIRES(lock);
    void carry_out(errands& todo) noexcept CENOTE_EXCLUDES(lock);
    /// The workplace hears of jobs and of an earlier time.
    void rouse(errands& todo) CENOTE_REQUIRES(lock);
    /// Takes a waiter from what this thread is about to notify. False: it is not there.
    static bool take_back(const detail::waiter& who) noexcept;
    /// The pool may be gone before a waiter that got no lease has asked why, or wants to cancel.
    void keep_for(detail::waiter& who);

    // Time.

    /// The only place where a pool reads the time, but for timers of Asio. Two threads may see
    /// times that differ by a microsecond.
    core::instant now() const { return clock == nullptr ? read_clock() : clock->now(); }
    /// Not before what was read here last, on whichever thread: what is decided goes by this one.
    core::instant now_in_order() const CENOTE_REQUIRES(lock) {
        core::instant at = now();
        if (at > latest_) latest_ = at;
        return latest_;
    }
    /// When tick() must be called next.
    core::instant wake_at() const CENOTE_REQUIRES(lock);
    /// For the part that minds the clock: until when it will not look.
    core::instant mind_until() CENOTE_REQUIRES(lock) {
        return looked_for_ = std::min(wake_at(), look_again_);
    }
    /// The same for a thread that does nothing else. While turns are taken it looks again soon,
    /// since it would have to be woken for each.
    core::instant mind_closely(core::instant now) CENOTE_REQUIRES(lock);
    /// It cannot: the next one that comes with a deadline has to tell it again.
    void mind_nothing() CENOTE_REQUIRES(lock) { looked_for_ = core::never; }
    /// Whether a thread that waits for this pool moves its manual clock.
    bool waits_move_clock() const {
        return clock != nullptr && clock->how() == manual_clock::waiting::moves_clock;
    }
    bool let_time_pass(core::instant until) noexcept { return clock->advance_to_next(until); }
    bool is_minded_until(core::instant at) const CENOTE_REQUIRES(lock) { return looked_for_ <= at; }
    /// The part that minds the clock must hear: it must look earlier, or need not look any more. On
    /// an executor a timer that is not needed would keep the loop running.
    bool must_tell_clock() const CENOTE_REQUIRES(lock) {
        core::instant at = wake_at();
        bool ended = at == core::never && looked_for_ != core::never && !can.blocks;
        return at < looked_for_ || ended;
    }
    void tick() noexcept CENOTE_EXCLUDES(lock);

    // How a lease ends. Any thread, any time.

    void release(detail::resource* r) noexcept CENOTE_EXCLUDES(lock);
    void release(detail::resource* r, std::exception_ptr cause) noexcept CENOTE_EXCLUDES(lock);
    /// Back to the machine, not to the shelf.
    void give_to_machine(core::instant now, detail::resource* r, core::condition how,
                         const std::optional<core::duration>& held, std::uint64_t thread = 0)
        CENOTE_REQUIRES(lock);
    /// Whether before_acquire has nothing against it. Runs the user's code.
    bool admits(detail::resource* r) noexcept CENOTE_EXCLUDES(lock) {
        return !looks_before_acquire_ || look_before_acquire(r);
    }
    /// before_acquire has not seen what this waiter got. The keeper is there if so: it is leased.
    bool is_unseen(const detail::waiter& who) const {
        return who.asynchronous && who.got != nullptr && looks_before_acquire_;
    }
    bool looks_before_acquire() const { return looks_before_acquire_; }
    void granted(core::instant now, detail::resource* r, const borrower& who) CENOTE_REQUIRES(lock);

    // Connector calls.

    bool has_jobs() const CENOTE_REQUIRES(lock) { return jobs_waiting() > 0; }
    std::size_t jobs_waiting() const CENOTE_REQUIRES(lock) {
        return calls.waiting() + (news.has_news() ? 1 : 0);
    }
    /// The one that opens; changes under the lock.
    detail::any_connector* connector() const CENOTE_REQUIRES(lock) { return connector_.get(); }

    // Its life.

    void end() noexcept CENOTE_EXCLUDES(lock);
    void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
    void drop_ref() noexcept;

    // Forks: see keeper_fork.cpp.

    void after_fork_in_child() noexcept CENOTE_UNCHECKED_LOCKING;
    /// Begins again if it has not in this process. Throws std::bad_alloc; the next caller tries
    /// again.
    void catch_up() CENOTE_EXCLUDES(lock);
    /// False: there is no memory to begin again.
    bool try_to_catch_up() noexcept CENOTE_EXCLUDES(lock);
    /// Before an acquire: also opens the minimum, as if the pool had just been made.
    void get_ready() CENOTE_EXCLUDES(lock) {
        if (ready_in_.load(std::memory_order_acquire) != detail::this_process) [[unlikely]]
            make_ready();
    }
    void start_anew(errands& todo) CENOTE_REQUIRES(lock);

    // What never changes.

    const options fixed;                    // the options, but for `max` and the breaker
    manual_clock* const clock;              // null: the system's
    const detail::connector_abilities can;  // of every connector it has
    const bool can_probe;
    const bool takes_turns;

    // Its parts.

    mutable pool_lock lock;
    announcer news;  // guarded by itself and the lock
    umpire strategy CENOTE_GUARDED_BY(lock);
    std::atomic<std::size_t> max_now;  // changes under the lock
    core::machine machine CENOTE_GUARDED_BY(lock);
    core::actions out CENOTE_GUARDED_BY(lock);
    lease_ledger leases CENOTE_GUARDED_BY(lock);
    lane_pool around_lane CENOTE_GUARDED_BY(lock);
    shell::lane lane CENOTE_GUARDED_BY(lock);
    call_queue calls CENOTE_GUARDED_BY(lock);
    open_log opens CENOTE_GUARDED_BY(lock);
    shell::suspension suspension CENOTE_GUARDED_BY(lock);
    shell::watchers watchers CENOTE_GUARDED_BY(lock);
    const std::unique_ptr<shell::workplace> work;  // says for each function which lock it needs
    fork_state forks;                              // guarded by itself and the lock

    /// Odd while the machine's numbers change: for those who read them without the lock.
    std::atomic<std::uint64_t> sequence{0};
    struct changing;

private:
    keeper(const options& settings, std::unique_ptr<detail::any_connector> connector,
           const workplace_maker& make_workplace);
    ~keeper() = default;

    void make_ready() CENOTE_EXCLUDES(lock);

    template <class Ask>
    void ask_machine(core::instant now, Ask&& ask) noexcept(noexcept(ask(core::instant{})));
    bool anything_to_sort_out() const CENOTE_REQUIRES(lock);
    void sort_out(core::instant now, errands& todo) noexcept CENOTE_REQUIRES(lock);
    void sort_out(core::instant now, const core::action& a, errands& todo) noexcept
        CENOTE_REQUIRES(lock);
    void look_around(core::instant now, errands& todo) noexcept CENOTE_REQUIRES(lock);
    void note_event(const core::action& a) CENOTE_REQUIRES(lock);
    bool look_before_acquire(detail::resource* r) noexcept CENOTE_EXCLUDES(lock);
    std::exception_ptr look_before_release(detail::resource* r) noexcept CENOTE_EXCLUDES(lock);

    static constinit thread_local errands* carried_out_here;

    std::atomic<std::size_t> refs_{1};
    std::atomic<detail::process_number> ready_in_{detail::no_process};       // make_ready() is done
    mutable core::instant latest_ CENOTE_GUARDED_BY(lock) = core::long_ago;  // see now_in_order()
    std::uint64_t settles_ CENOTE_GUARDED_BY(lock) = 0;  // the machine's, at the last sort_out
    core::instant looked_for_ CENOTE_GUARDED_BY(lock) = core::long_ago;  // the clock is minded
    core::instant look_again_ CENOTE_GUARDED_BY(lock) = core::never;     // also without need
    std::uint64_t turns_seen_ CENOTE_GUARDED_BY(lock) = 0;               // at the last look
    bool occupied_ CENOTE_GUARDED_BY(lock) = false;  // has the reference of all that is not vacant
    const fork_watch told_of_forks_{*this};          // the last to be made, the first to go
};

inline keeper& keeper_of(detail::gate* g) { return *static_cast<keeper*>(g); }
inline const keeper& keeper_of(const detail::gate* g) { return *static_cast<const keeper*>(g); }

inline core::instant keeper::wake_at() const {
    core::instant at = std::min(machine.wake_at(), lane.sweep_at());
    at = std::min(at, leases.look_at());
    if (watchers.any()) at = std::min(at, watchers.earliest_deadline());
    // While the lane is open to newcomers, what the head is owed may lie on the shelf.
    if (!lane.is_shut_for_waiters()) at = std::min(at, machine.owed_at());
    return at;
}

}  // namespace cenote::shell

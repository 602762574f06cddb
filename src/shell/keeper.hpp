// The keeper: lock, clock and resources of one pool around its machine.
//
// Every way in is the same four steps, written once in enter(): lock, ask the machine, unlock,
// carry out. No user code (connector, observer, waiter) runs under the lock, because there is
// nowhere to write it.
//
// What keeps a keeper alive (refs_): the pool object; every thread that works for it; every thread
// with errands that need it; and, as one, everything that is not vacant. Whoever drops the last one
// deletes it. So a lease needs no reference of its own and can outlive its pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cenote/detail/gate.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/testing.hpp"
#include "core/leaks.hpp"
#include "core/machine.hpp"
#include "shell/announcer.hpp"
#include "shell/fork.hpp"
#include "shell/job.hpp"
#include "shell/stable_array.hpp"
#include "shell/suspension.hpp"
#include "shell/umpire.hpp"
#include "shell/workplace.hpp"

namespace cenote::shell {

class many_waiter;
class thread_waiter;

class keeper final : public detail::gate {
public:
    using workplace_maker = std::function<std::unique_ptr<workplace>(keeper&)>;

    /// Makes the keeper of a pool and starts its warm-up. Throws what gate::open throws.
    static keeper* open(const options& settings, std::unique_ptr<detail::any_connector> connector,
                        const workplace_maker& make_workplace);
    keeper(const keeper&) = delete;
    keeper& operator=(const keeper&) = delete;

    // The slow ways of gate.
    void end() noexcept;
    detail::resource* acquire(const detail::wish& w, errc& why);
    detail::resource* try_acquire(std::source_location site);
    bool acquire_many(const detail::wish& w, std::span<detail::resource*> into, errc& why);
    detail::resource* taken(detail::resource* r) noexcept;
    bool ask(detail::waiter& who);
    void cancel(detail::waiter& who) noexcept;
    bool withdraw(detail::waiter& who) noexcept;
    static bool take_back(const detail::waiter& who) noexcept;
    void refused(errc why) noexcept;
    void release(detail::resource* r, std::exception_ptr cause = nullptr) noexcept;
    void hand_in(detail::resource* r) noexcept;
    std::unique_ptr<detail::resource> detach(detail::resource* r) noexcept;
    void retire_all();
    void suspect_all() noexcept;
    void suspect(const detail::resource* r) noexcept;
    void replace_connector(std::unique_ptr<detail::any_connector> next);
    void resize(std::size_t max);
    void pause();
    void resume();
    void suspend_maintenance();
    void resume_maintenance();
    void go(const breaker_move& where);
    void set_breaker(std::shared_ptr<breaker> strategy);
    core::duration retry_after() const;
    void close() noexcept;
    std::size_t close(std::chrono::nanoseconds timeout, std::source_location site) noexcept;
    bool wait_ready(std::chrono::nanoseconds timeout, std::source_location site);
    std::size_t max() const { return max_.load(std::memory_order_relaxed); }
    bool closed() const noexcept { return machine_.closed(); }
    std::exception_ptr open_error() const {
        std::lock_guard lock(mutex_);
        return open_error_;
    }
    options settings() const;
    stats read() const;
    std::vector<lease_info> leases() const;
    std::vector<slot_info> slots() const;
    std::string explain(errc why, bool queues, std::size_t wanted, core::instant since,
                        std::exception_ptr& cause);

    /// The only place where a pool reads the time, but for timers of Asio.
    core::instant now() const {
        return clock_ == nullptr ? std::chrono::steady_clock::now() : clock_->now();
    }
    // For a manual clock. Not under the lock.
    core::instant next_due() const {
        std::lock_guard lock(mutex_);
        return wake_at();
    }
    void time_has_moved() {
        std::lock_guard lock(mutex_);
        tell_watchers();
    }
    bool waits_move_clock() const {
        return clock_ != nullptr && clock_->how() == manual_clock::waiting::moves_clock;
    }
    bool let_time_pass(core::instant until) noexcept { return clock_->advance_to_next(until); }

    // For the work files.
    std::mutex& lock() { return mutex_; }
    bool has_manual_clock() const { return clock_ != nullptr; }
    /// Under the lock. What is to be done next; false: nothing.
    bool next_job(job& j);
    /// Does it. A connector's call comes back to the workplace, and ends with finish().
    void run(const job& j) noexcept;
    /// A call has ended: with what was opened, with a yes or a no, or with an error.
    void finish(const job& j, bool well, const std::exception_ptr& error,
                std::unique_ptr<detail::resource> opened) noexcept;
    // Under the lock.
    bool has_jobs() const { return jobs_waiting() > 0; }
    std::size_t jobs_waiting() const {
        return queue_.waiting + orphan_count_ + admissions_.waiting +
               (announcer_.has_news() ? 1 : 0);
    }
    core::instant wake_at() const;
    /// For whoever minds the clock: until when it will not look.
    core::instant mind_until() { return looked_for_ = wake_at(); }
    /// It cannot: whoever comes next with a deadline has to tell it again.
    void mind_nothing() { looked_for_ = core::never; }
    void let_time_run();
    void tell_watchers() {
        ++changes_;
        if (watchers_ > 0) changed_.notify_all();
    }
    // For fork.cpp.
    void before_fork() noexcept;
    void after_fork() noexcept;
    void after_fork_in_child() noexcept;
    // Not under the lock.
    void tick() noexcept;
    void add_ref() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }
    void drop_ref() noexcept;

private:
    keeper(const options& settings, std::unique_ptr<detail::any_connector> connector,
           const workplace_maker& make_workplace);
    ~keeper() = default;
    void begin();
    void wait_warm();

    /// What one thread has to do after it let go of the lock.
    struct errands {
        detail::waiter* first = nullptr;
        detail::waiter** last = &first;
        bool left_empty = false;              // the last slot became vacant
        bool alone = false;                   // nobody is left to make the calls
        bool summons = false;                 // the workplace has to be told
        bool judges = false;                  // so has the breaker's strategy
        std::exception_ptr forgotten;         // an open error that is the last no longer
        detail::resource* foreign = nullptr;  // to be forsaken, up to the end
        detail::resource* foreign_end = nullptr;
        errands* outer = nullptr;  // further up on this stack, somebody else's

        void add(detail::waiter& w) {
            w.next = nullptr;
            *last = &w;
            last = &w.next;
        }
        /// The next waiter, which may be gone once it is notified.
        detail::waiter* pop() {
            detail::waiter* w = first;
            if (w == nullptr) return nullptr;
            first = w->next;
            if (first == nullptr) last = &first;
            return w;
        }
        bool remove(const detail::waiter& gone) {
            for (detail::waiter** w = &first; *w != nullptr; w = &(*w)->next) {
                if (*w != &gone) continue;
                if (last == &gone.next) last = w;
                *w = gone.next;
                return true;
            }
            return false;
        }
        /// Waiters are told without the keeper, which may be gone by then; unless what they got is
        /// still to be looked at, which keeps it.
        bool needs_keeper() const { return left_empty || alone || summons || judges; }
        bool any() const { return first != nullptr || needs_keeper() || foreign != nullptr; }
    };
    /// What the keeper knows of a slot.
    struct place {
        detail::resource* held = nullptr;
        std::uint64_t hits_known = 0;  // of its resource: those that the machine knows about
        job pending{};                 // the call to be made next
        bool queued = false;
        place* next = nullptr;
        place* previous = nullptr;
        // Of the machine's grants of this slot: how many, and what the trace said at the last.
        std::uint64_t grants = 0;
        std::uint64_t hits = 0;
        std::uint64_t puts = 0;
    };
    using trace_array = stable_array<detail::trace>;
    struct job_queue {
        place* first = nullptr;
        place* last = nullptr;
        std::size_t waiting = 0;
    };

    /// Asynchronous waiters whose resource before_acquire still has to look at.
    struct admission_queue {
        detail::waiter* first = nullptr;
        detail::waiter* last = nullptr;
        std::size_t waiting = 0;
    };

    /// Who takes a lease, as it is written into the trace.
    struct borrower {
        std::source_location site;
        detail::manner how;
        std::uint64_t holder = 0;
    };
    static borrower borrower_of(const detail::waiter& w) { return {w.site, w.wants, w.holder}; }
    static void sign(detail::trace& seen, core::instant now, const borrower& who);

    /// A lease, as its trace shows it.
    struct holding {
        std::uint64_t number = 0;  // of all leases of its slot
        std::source_location site;
        core::instant since;  // long_ago: not known
        core::duration leak_after{};
        const char* task = nullptr;
    };

    template <class Ask>
    void enter(Ask&& ask) noexcept(noexcept(ask(core::instant{})));
    struct changing;
    template <class Ask>
    void decide(Ask&& ask, errands& todo) noexcept(noexcept(ask(core::instant{})));
    template <class Ask>
    void decide(core::instant now, Ask&& ask,
                errands& todo) noexcept(noexcept(ask(core::instant{})));
    bool anything_to_sort_out() const;
    void sort_out(core::instant now, errands& todo) noexcept;
    void look_around(core::instant now, errands& todo) noexcept;
    void sort_out(core::instant now, const core::action& a, errands& todo) noexcept;
    void carry_out(errands& todo) noexcept;
    static constinit thread_local errands* carried_out_here;
    void rouse(errands& todo);

    // Under the lock.
    bool queue_up(core::instant now, detail::waiter& who);
    detail::waiter* pass_on(core::instant now, detail::resource* r, errands& todo);
    /// Asks for a lease on behalf of `who`. True: it has to wait.
    bool ask_for(core::instant now, detail::waiter& who);
    detail::resource* take_from_shelf(core::instant now, const borrower& who);
    void prepare(core::instant now, detail::resource* r, const borrower& who);
    std::uint64_t note_who_holds(std::uint64_t comes, std::size_t wanted);
    bool waited_in_vain(std::size_t wanted);
    void note_nested(std::source_location site);
    void end_lease(core::instant now, detail::resource* r, core::condition how,
                   const std::exception_ptr& cause);
    void give_to_machine(core::instant now, detail::resource* r, core::condition how,
                         const std::optional<core::duration>& held);
    void mind_the_lane(core::instant now);
    void collect_shelf(core::instant now);
    void sweep_shelf(core::instant now);
    core::instant next_shelf_sweep(core::instant now) const;
    bool lane_is_open() const;
    bool keep_on_shelf(core::instant now, detail::resource* r);
    bool is_out(core::slot_id id) const;
    std::optional<holding> holding_of(core::slot_id id) const;
    void note_lent(core::instant now, const borrower& who);
    void note_holders(core::instant now);
    void look_for_leak(core::instant now, core::slot_id id, const holding& h);
    core::instant leaks_at() const;
    void list_leases(core::instant now, std::vector<lease_info>& into) const;
    void recall(core::instant now);
    void notice_suspension(core::instant now);
    bool might_lend_suspects() const;
    void suspect_all(core::instant now);
    void forget_recalled(const detail::resource* r);
    void bring_back(core::instant now, detail::resource* r);
    detail::resource* lay_on_shelf(core::instant now, detail::resource* r);
    void queue_call(core::instant now, const core::action& a);
    void give_up(const core::action& a);
    void abandon_call(core::instant now, const core::action& a);
    void enqueue(place& p);
    bool ask_now(core::instant now, detail::waiter& who);
    bool ask_for_lease(core::instant now, detail::waiter& who);
    bool take_out(core::instant now, detail::waiter& who);
    void keep_for(detail::waiter& who);
    bool watch_for(core::instant now, detail::waiter& who);
    bool has_come(core::instant now, detail::waiter& who) const;
    void look_for_watchers(core::instant now, errands& todo);
    bool unwatch(detail::waiter& who);
    void enqueue(detail::waiter& who);
    bool unqueue(detail::waiter& who);
    void unqueue(place& p);
    void make_orphan(detail::resource* r);
    void note_event(const core::action& a);
    void note_open(core::instant now, const std::exception_ptr& error);
    std::size_t calls_in_flight() const;
    static std::uint64_t pick_seed(const options& settings);

    template <class Until>
    bool watch(core::instant deadline, Until until);
    void let_something_happen(std::unique_lock<std::mutex>& lock, core::instant limit) noexcept;
    bool ask_for(thread_waiter& me, detail::resource* rejected);
    core::answer ask_for_many(many_waiter& me);
    bool admits_all(std::span<detail::resource*> all) noexcept;
    bool may_block(std::source_location site) noexcept;
    bool cannot_wait_here() const;
    void wait(thread_waiter& me, const detail::wish& w);
    bool admits(detail::resource* r) noexcept;
    std::exception_ptr look_before_release(detail::resource* r) noexcept;
    void make_calls_here() noexcept;
    void shut_for_breaker(core::instant now, breaker_state to);
    std::uint64_t count_lane();
    void note_lane(core::instant now);
    void let_go_of_strategy() noexcept;
    void judge() noexcept;
    void tell() noexcept;
    bool look_here(detail::waiter& who);
    bool is_unseen(const detail::waiter& who) const;
    bool admit(detail::waiter& who, errands& todo) noexcept;
    bool ask_again(detail::waiter& who, errands& todo) noexcept;
    void skip(const job& j) noexcept;
    void finish_close(const job& j, core::outcome how, const std::exception_ptr& error) noexcept;
    void answer(const job& j, core::outcome how, const std::exception_ptr& error,
                std::unique_ptr<detail::resource> opened) noexcept;
    void answer_open(core::instant now, const job& j, core::outcome how,
                     const std::exception_ptr& error, std::unique_ptr<detail::resource>& opened);

    // In the child of a fork.
    bool is_behind() const {
        return lives_in_.load(std::memory_order_acquire) != detail::this_process;
    }
    void catch_up();
    void get_ready();
    bool try_to_catch_up() noexcept;
    void close_unborn() noexcept;
    void start_anew(errands& todo);
    void disown_all() noexcept;
    void forget_the_past() noexcept;
    static bool is_foreign(const detail::resource* r);
    static bool is_forgotten(const detail::waiter& who);
    void forsake(detail::resource* r) noexcept;
    void finish_foreign(const job& j, std::unique_ptr<detail::resource> opened) noexcept;
    std::unique_ptr<detail::resource> detach_foreign(detail::resource* r) noexcept;
    void join_anew(detail::waiter& me, detail::resource*& rejected) noexcept;
    bool cancel_forgotten(detail::waiter& who) noexcept;
    bool withdraw_forgotten(detail::waiter& who) noexcept;
    core::abilities abilities() const;
    options settings_with(std::size_t max) const;

    const options settings_;                 // but for max
    manual_clock* const clock_;              // null: the system's
    const detail::connector_abilities can_;  // of every connector it has
    const bool can_probe_;
    const core::duration shelf_interval_;
    const core::duration holder_interval_;  // of looks at those on the fast lane
    announcer announcer_;
    umpire umpire_;
    std::unique_ptr<trace_array> traces_;
    std::atomic<std::size_t> max_;  // changes under the lock
    std::atomic<std::size_t> refs_{1};

    mutable std::mutex mutex_;
    std::atomic<std::uint64_t> sequence_{0};  // odd while the machine's numbers change
    core::machine machine_;
    core::actions out_;
    stable_array<place> places_;
    job_queue queue_;
    admission_queue admissions_;
    detail::resource* orphans_ = nullptr;
    std::size_t orphan_count_ = 0;
    std::uint64_t settles_ = 0;                  // the machine's, when it was last sorted out
    core::instant looked_for_ = core::long_ago;  // until then the clock is minded without a word
    suspension suspension_;
    core::tally collected_;     // resources that came back from the shelf to the machine
    std::size_t recalled_ = 0;  // leases from before the last recall still out
    core::instant recalled_at_ = core::long_ago;
    core::instant suspicion_ = core::long_ago;  // the machine's, as far as the shelf knows
    core::instant swept_at_;                    // the shelf's last sweep, and the one before
    core::instant swept_before_;
    core::instant shelf_sweep_at_ = core::never;
    core::leaks leaks_;
    std::uint64_t puts_judged_ = 0;  // leases from the shelf that the breaker's strategy knows of
    bool occupied_ = false;          // holds the reference of everything not vacant
    std::exception_ptr cause_;       // of the failure that is being answered,
    std::uint64_t cause_of_ = 0;     // and of which resource
    const std::exception_ptr open_timed_out_;
    const std::exception_ptr close_timed_out_;
    std::exception_ptr open_error_;  // of the last open; null if it went well
    std::exception_ptr forgotten_;   // the one before: its end is the user's code
    core::instant open_ended_at_ = core::long_ago;
    std::exception_ptr first_open_error_;  // of all opens
    std::condition_variable changed_;      // for close(timeout), wait_ready, end
    std::size_t watchers_ = 0;             // threads that wait for changed_
    std::uint64_t changes_ = 0;            // how often they were told
    detail::waiter* watching_ = nullptr;   // those who do so without a thread

    const std::unique_ptr<workplace> work_;

    // See keeper_fork.cpp.
    std::atomic<detail::process_number> lives_in_{detail::this_process};
    std::atomic<bool> must_begin_{false};  // the minimum is not kept yet
    detail::process_number disowned_in_ = detail::this_process;
    bool machine_is_gone_ = false;
    detail::resource* inherited_ = nullptr;   // the parent's, held by somebody or once held
    detail::resource* to_forsake_ = nullptr;  // the parent's, and nobody's here
    detail::resource* forsaken_ = nullptr;    // those it was said to; kept, never destroyed
    std::vector<std::unique_ptr<trace_array>> old_traces_;
    const fork_watch told_of_forks_{*this};  // the last to be made, the first to go
};

/// When somebody must be looked at who may hold a lease for too long.
inline core::instant keeper::leaks_at() const {
    bool looks = machine_.count(core::slot_state::leased) > 0 && machine_.maintains();
    return looks ? leaks_.look_at() : core::never;
}

inline core::instant keeper::wake_at() const {
    core::instant at = std::min({machine_.wake_at(), shelf_sweep_at_, leaks_at()});
    for (const detail::waiter* w = watching_; w != nullptr; w = w->next)
        at = std::min(at, w->deadline);
    // While the lane is open to newcomers, what the head is owed may lie on the shelf.
    bool lane_shut = (shelf_.raised() & detail::somebody_waits) != 0;
    return lane_shut ? at : std::min(at, machine_.owed_at());
}

}  // namespace cenote::shell

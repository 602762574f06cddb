// A model of the keeper around the lane, for the model checker: a lock, a machine, a timer.
//
// The lane and its shelf are the real ones (src/shell/lane.hpp, cenote/detail/shelf.hpp), on model
// atomics; or copies of them with a flaw (lane_flaws.py). The model calls the lane and the machine
// in the same order as the keeper (keeper.cpp, acquire.cpp, release.cpp, control.cpp): a change of
// that order there must be made here, too. The machine is reduced to "a resource goes to the head
// of the line when it is owed one, else it becomes idle".
//
// Time is a number that grows only when the timer comes: a waiter may be bypassed until the next
// such instant. A run of the model ends when nothing moves and no timer is set.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cenote/detail/shelf.hpp"
#include "shell/interleave.hpp"
#include "shell/lane.hpp"

namespace cenote::interleave {

/// Flaws of the model itself, which the checker must find. The flaws of the lane and the shelf are
/// in lane_flaws.py.
enum class toy_flaw { none, owed_has_no_timer, bypassed_shut_the_lane, owing_is_not_checked };

struct item {
    std::size_t number = 0;
    std::uint64_t generation = 0;
    std::uint64_t lent_after = 0;  // the number of recalls before the machine lent it
    std::uint64_t touches = 0;
    std::uint64_t touches_swept = 0;
    bool owned = false;
    bool owes = false;                    // a reset
    model_atomic<std::uint64_t> puts{0};  // only its holder writes it
};

struct waiter {
    model_wake woken;
    item* got = nullptr;
    std::uint32_t ticket = 0;  // one bit
    unsigned owed_at = 0;
};

/// The line and the commands so far, against which the promises are checked. Read and changed in
/// separate steps, so that a borrower's view of it has a place in the order of steps.
class history {
public:
    /// The state when an acquire began.
    struct past {
        std::uint32_t lane_shut_for;  // tickets
        std::uint32_t due;            // by the clock, which the fast lane does not read
        std::uint64_t generation;
        std::uint64_t recalls;
        bool closed;
    };

    past look(unsigned now) {
        touch("looks at the line", this, false);
        std::uint32_t due = 0;
        for (std::size_t i = 0; i < owed_at_.size(); ++i)
            if (owed_at_[i] <= now) due |= (1u << i) & in_line_;
        return {lane_shut_for_, due, generation_, recalls_, closed_};
    }

    std::uint32_t next_ticket() { return 1u << tickets_++; }

    /// The thread that put it in line has released the lock.
    void note_waiter(const waiter& w, bool lane_is_shut) {
        std::uint32_t& known = lane_is_shut ? lane_shut_for_ : in_line_;
        if ((known & w.ticket) != 0) return;
        touch("is in line", this, true);
        in_line_ |= w.ticket;
        if (lane_is_shut) lane_shut_for_ |= w.ticket;
        for (std::size_t i = 0; i < owed_at_.size(); ++i)
            if (w.ticket == 1u << i) owed_at_[i] = w.owed_at;
    }
    void forget_waiter(const waiter& w) {
        if ((in_line_ & w.ticket) == 0) return;
        touch("leaves the line", this, true);
        in_line_ &= ~w.ticket;
    }

    void note_recall(std::uint64_t recalls, std::uint64_t generation) {
        touch("has recalled", this, true);
        recalls_ = std::max(recalls_, recalls);
        generation_ = std::max(generation_, generation);
    }
    void note_close() {
        touch("has closed", this, true);
        closed_ = true;
    }

    void check_served(item* r, const past& then, bool by_keeper) {
        touch("is served", this, false);
        std::uint32_t before_me = then.lane_shut_for | (by_keeper ? then.due : 0);
        fail_unless((in_line_ & before_me) == 0, "a later acquire was served before the line");
        fail_unless(r->generation >= then.generation,
                    "a resource was lent that retire_all had retired");
        fail_unless(r->lent_after >= then.recalls,
                    "a recalled resource was lent without passing the machine");
        fail_unless(!then.closed, "a closed pool lent a resource");
        fail_unless(!r->owned, "a resource has two owners");
        r->owned = true;
    }

private:
    std::array<unsigned, 8> owed_at_{};
    unsigned tickets_ = 0;  // under the keeper's lock
    std::uint32_t in_line_ = 0;
    std::uint32_t lane_shut_for_ = 0;
    std::uint64_t generation_ = 0;
    std::uint64_t recalls_ = 0;
    bool closed_ = false;
};

/// The machine, as far as the shelf needs it. Used under the keeper's lock.
class toy_machine {
public:
    static constexpr unsigned never = ~0u;
    /// The answered waiters, to be woken after the lock is released.
    struct actions {
        std::array<waiter*, explorer::most_fibers> who{};
        std::size_t size = 0;
    };

    toy_machine(history& events, bool bounded) : events_(events), bounded_(bounded) {}

    unsigned owed_at() const { return line_.empty() ? never : line_.front()->owed_at; }
    unsigned wake_at() const { return idle_.empty() ? never : owed_at(); }
    const std::vector<waiter*>& line() const { return line_; }
    const std::vector<item*>& idle() const { return idle_; }
    const std::vector<item*>& retired() const { return retired_; }
    bool closed() const { return closed_; }
    std::size_t leased() const { return leased_; }
    std::size_t taken_back() const { return taken_back_; }
    std::uint64_t generation() const { return generation_; }
    std::uint64_t suspicion() const { return suspicion_; }

    void start_with(item* r, bool leased) {
        if (leased) ++leased_;
        else idle_.push_back(r);
    }

    /// Null: not at once.
    item* try_acquire(unsigned now) {
        item* r = closed_ || idle_.empty() || owed_at() <= now ? nullptr : lend();
        settle(now);
        return r;
    }
    /// True: it has to wait.
    bool acquire(unsigned now, waiter& who) {
        who.got = try_acquire(now);
        if (who.got != nullptr || closed_) return false;
        who.ticket = events_.next_ticket();
        who.owed_at = bounded_ ? now + 1 : now;
        line_.push_back(&who);
        settle(now);
        return true;
    }
    void take_back(unsigned now, item* r) {
        --leased_;
        ++taken_back_;
        (closed_ || r->generation != generation_ ? retired_ : idle_).push_back(r);
        settle(now);
    }
    void retire_all(unsigned now) {
        ++generation_;
        retire_idle();
        settle(now);
    }
    void suspect_all(unsigned now) {
        ++suspicion_;
        settle(now);
    }
    void close() {
        closed_ = true;
        while (!line_.empty()) answer_head(nullptr);
        retire_idle();
    }
    void tick(unsigned now) { settle(now); }

    actions out;
    std::uint64_t recalls = 0;  // what a lease is dated by

private:
    void settle(unsigned now) {
        while (!idle_.empty() && owed_at() <= now) answer_head(lend());
    }
    void answer_head(item* r) {
        waiter* w = line_.front();
        line_.erase(line_.begin());
        events_.forget_waiter(*w);
        w->got = r;
        out.who[out.size++] = w;
    }
    item* lend() {
        item* r = idle_.back();
        idle_.pop_back();
        r->lent_after = recalls;
        ++leased_;
        return r;
    }
    void retire_idle() {
        retired_.insert(retired_.end(), idle_.begin(), idle_.end());
        idle_.clear();
    }

    history& events_;
    bool bounded_;
    std::vector<item*> idle_;
    std::vector<item*> retired_;
    std::vector<waiter*> line_;
    std::size_t leased_ = 0;
    std::size_t taken_back_ = 0;
    std::uint64_t generation_ = 0;
    std::uint64_t suspicion_ = 0;
    bool closed_ = false;
};

/// Which parts of the keeper are modeled; each makes the model larger.
struct scope {
    bool counts = false;   // its counters
    bool bounded = false;  // newcomers may bypass the head for a while: clock and timer
};

/// Only its holder counts the end of a lease, so no count may get lost.
inline std::uint64_t count_put(item* r, scope with) {
    ++r->touches;
    if (!with.counts) return 0;
    std::uint64_t before = r->puts.load();
    r->puts.store(before + 1);
    return before;
}

/// The pool around the lane, as lane.hpp asks for it. Nothing grows old or is used up here.
template <class Shelf>
class toy_pool {
public:
    using item = interleave::item;
    using shelf = Shelf;
    using instant = unsigned;
    using date = std::uint64_t;  // the number of recalls before
    using suspicion_mark = std::uint64_t;
    static constexpr instant never = toy_machine::never;
    static constexpr suspicion_mark no_suspicion = 0;

    toy_pool(toy_machine& machine, scope with, toy_flaw planted)
        : machine_(machine), with_(with), planted_(planted) {}

    /// Where the calling thread runs.
    void run_on(std::size_t cell) { cell_ = cell; }

    std::size_t cell() const { return cell_; }
    bool owes_waiter(instant now) const {
        unsigned at = machine_.owed_at();
        return planted_ == toy_flaw::bypassed_shut_the_lane ? at != never : at <= now;
    }
    suspicion_mark suspicion() const { return machine_.suspicion(); }
    std::size_t leased() const { return machine_.leased(); }
    /// Of a recall. What is lent from now on has a later one.
    date date_of(instant) { return machine_.recalls++; }
    static date lent_at(const item* r) { return r->lent_after; }
    static bool is_expired(instant, const item*) { return false; }
    static bool is_used_up(const item*) { return false; }
    static std::uint64_t touches(const item* r) { return r->touches; }
    static bool owes_reset(const item* r) { return r->owes; }
    static instant next_sweep(instant now, bool some_owe) {
        return now + (some_owe ? soon : 5 * soon);
    }
    static constexpr instant soon = 1;

    void bring_back(instant now, item* r, instant) { machine_.take_back(now, r); }
    std::uint64_t count_put(item* r) { return interleave::count_put(r, with_); }
    void undo_put(item* r, std::uint64_t before) {
        --r->touches;
        if (with_.counts) r->puts.store(before);
    }
    static void clear_lease_time(const item*) {}
    static void before_sweep(instant) {}
    static void woke_up(instant) {}
    static void fell_asleep(instant) {}

private:
    toy_machine& machine_;
    scope with_;
    toy_flaw planted_;
    std::size_t cell_ = 0;  // guarded by the lock
};

/// A lane and its shelf, as the toy keeper uses them: the real ones, or ones with a flaw. So the
/// rest is compiled once for all flaws.
class lane_on_trial {
public:
    lane_on_trial() = default;
    lane_on_trial(const lane_on_trial&) = delete;
    lane_on_trial& operator=(const lane_on_trial&) = delete;
    virtual ~lane_on_trial() = default;

    // Without the lock: the shelf.
    virtual item* take(std::size_t cell, bool& must_return) = 0;
    virtual item* put(std::size_t cell, item* r) = 0;
    virtual bool accepts_owing() const = 0;

    // Under the lock.
    virtual void follow_line(unsigned now) = 0;
    virtual item* take_at(unsigned now, std::size_t cell) = 0;
    virtual bool put_at(unsigned now, std::size_t cell, item* r) = 0;
    virtual void accept_returned_at(unsigned now, std::size_t cell, item* r) = 0;
    virtual void note_return(const item* r) = 0;
    virtual void recall(unsigned now) = 0;
    virtual void close(unsigned now) = 0;
    virtual void sweep(unsigned now) = 0;
    virtual bool is_swept() const = 0;
    /// In time for what owes a reset.
    virtual bool is_swept_soon(unsigned now) const = 0;
    virtual bool is_shut_for_waiters() const = 0;

    // Before the run and after it.
    virtual void fill(std::size_t cell, item* r) = 0;
    virtual std::vector<item*> empty() = 0;
    virtual std::uint32_t raised() const = 0;
    virtual std::size_t recalled() const = 0;
    virtual std::uint64_t collected() const = 0;
};

/// How a world begins, but for its resources.
struct lane_setup {
    toy_machine& machine;
    std::size_t cells;
    std::uint32_t reasons;
    scope with;
    toy_flaw planted;
};

template <template <class, class> class Shelf, template <class> class Lane>
class lane_of final : public lane_on_trial {
public:
    explicit lane_of(const lane_setup& at)
        : pool_(at.machine, at.with, at.planted),
          shelf_(at.cells, at.reasons | detail::sweeper_asleep),
          lane_(pool_, shelf_) {
        if ((at.reasons & detail::sweeper_asleep) == 0) wake_up();
    }

    item* take(std::size_t cell, bool& must_return) override {
        return shelf_.take(cell, must_return);
    }
    item* put(std::size_t cell, item* r) override { return shelf_.put(cell, r); }

    bool accepts_owing() const override { return shelf_.accepts_owing(); }

    void follow_line(unsigned now) override { lane_.follow_line(now); }
    item* take_at(unsigned now, std::size_t cell) override {
        pool_.run_on(cell);
        return lane_.take(now);
    }
    bool put_at(unsigned now, std::size_t cell, item* r) override {
        pool_.run_on(cell);
        return lane_.put(now, r);
    }
    void accept_returned_at(unsigned now, std::size_t cell, item* r) override {
        pool_.run_on(cell);
        lane_.accept_returned(now, r);
    }
    void note_return(const item* r) override { lane_.note_return(r); }
    void recall(unsigned now) override { lane_.recall(now); }
    void close(unsigned now) override { lane_.close(now, detail::pool_closed); }
    void sweep(unsigned now) override { lane_.sweep(now); }
    bool is_swept() const override { return lane_.is_swept(); }
    bool is_swept_soon(unsigned now) const override {
        return lane_.sweep_at() <= now + toy_pool<shelf>::soon;
    }
    bool is_shut_for_waiters() const override { return lane_.is_shut_for_waiters(); }

    void fill(std::size_t cell, item* r) override { shelf_.restore(cell, r); }
    std::vector<item*> empty() override {
        std::vector<item*> found;
        for (std::size_t i = 0; i < shelf_.size(); ++i)
            if (item* r = shelf_.collect(i); r != nullptr) found.push_back(r);
        return found;
    }
    std::uint32_t raised() const override { return shelf_.raised(); }
    std::size_t recalled() const override { return lane_.recalled(); }
    std::uint64_t collected() const override { return lane_.collected(); }

private:
    using shelf = Shelf<item, model_sync>;

    /// A new lane sleeps until something is laid on the shelf.
    void wake_up() {
        item first;
        lane_.put(0, &first);
        shelf_.collect(0);
        shelf_.lower(detail::sweeper_asleep);  // also if the flaw is that it stays raised
    }

    toy_pool<shelf> pool_;
    shelf shelf_;
    Lane<toy_pool<shelf>> lane_;
};

using lane_maker = std::unique_ptr<lane_on_trial> (*)(const lane_setup&);

template <template <class, class> class Shelf, template <class> class Lane>
std::unique_ptr<lane_on_trial> make_lane(const lane_setup& at) {
    return std::make_unique<lane_of<Shelf, Lane>>(at);
}

inline constexpr lane_maker real_lane = &make_lane<detail::basic_shelf, shell::basic_lane>;

class toy_keeper {
public:
    toy_keeper(lane_maker make, std::size_t cells, std::uint32_t reasons, scope with,
               toy_flaw planted)
        : planted_(planted),
          with_(with),
          machine_(events_, with.bounded),
          lane_(make({machine_, cells, reasons, with, planted})) {}

    // The gate.

    /// Null: the pool is closed.
    item* acquire(std::size_t where) {
        begin_call("acquire");
        const auto before = look_back();
        if (item* r = take(where); r != nullptr) return served(r, before, false);
        waiter me;
        if (ask_for(where, me)) me.woken.wait();
        return me.got == nullptr ? nullptr : served(me.got, before, true);
    }

    /// Null: nothing is ready.
    item* try_acquire(std::size_t where) {
        begin_call("try_acquire");
        const auto before = look_back();
        if (item* r = take(where); r != nullptr) return served(r, before, false);
        item* r = nullptr;
        {
            section here(*this);
            r = take_from_lane(here.now, where);
            if (r == nullptr) r = machine_.try_acquire(here.now);
        }
        return r == nullptr ? nullptr : served(r, before, true);
    }

    /// `owes`: a reset, which its next use makes.
    void release(std::size_t where, item* r, bool owes = false) {
        begin_call(owes ? "release that owes a reset" : "release");
        end_lease(r);
        r->owes = owes;
        if (owes && planted_ != toy_flaw::owing_is_not_checked && !lane_->accepts_owing())
            return put_slowly(where, r);
        count_put(r, with_);
        if (item* back = lane_->put(where, r); back != nullptr) return_item(where, back);
    }

    /// The way of a lease that is not plain.
    void slow_release(std::size_t where, item* r) {
        begin_call("slow release");
        end_lease(r);
        r->owes = false;
        put_slowly(where, r);
    }

    // The whole pool.

    void retire_all() {
        begin_call("retire_all");
        recall_with([this](unsigned now) {
            lane_->recall(now);
            machine_.retire_all(now);
            recalls_due_ = machine_.recalls;
        });
    }
    /// The machine suspects everything that is open; the lane sees it in follow_line().
    void suspect_all() {
        begin_call("suspect_all");
        recall_with([this](unsigned now) {
            machine_.suspect_all(now);
            recalls_due_ = machine_.recalls + 1;
        });
    }

    void close() {
        begin_call("close");
        {
            section here(*this);
            lane_->close(here.now);
            machine_.close();
        }
        events_.note_close();
    }

    /// The tick at which the shelf is to be swept.
    void sweep() {
        begin_call("sweep");
        section here(*this);
        machine_.tick(here.now);
        if (lane_->is_swept()) lane_->sweep(here.now);
    }

    /// The minder: sleeps until its timer comes, which may be at any moment, and ticks.
    void mind_the_clock() {
        begin_call("timer");
        step({.what = "time comes", .where = &clock_, .writes = true, .until = &timer_is_set_});
        clock_ = std::max(clock_, wake_at_);
        section here(*this);
        machine_.tick(here.now);
    }

    // Before the run and after it.
    void start_with(item* r, bool held) {
        r->owned = held;
        machine_.start_with(r, held);
    }
    void start_on_shelf(std::size_t where, item* r) {
        machine_.start_with(r, true);
        lane_->fill(where, r);
    }
    std::string judge(std::vector<unsigned>& seen);
    std::string judge_counts(const std::vector<item>& all, const std::vector<item*>& held) const;
    std::size_t waiting() const { return machine_.line().size(); }

private:
    /// The keeper's enter(): lock, ask, dispatch, unlock, carry out.
    class section {
    public:
        explicit section(toy_keeper& home) : home_(home) {
            home_.mutex_.lock();
            now = home_.read_clock();
        }
        ~section() {
            home_.lane_->follow_line(now);
            home_.begin_period();
            home_.set_timer(now);
            for (const waiter* w : home_.machine_.line())
                home_.events_.note_waiter(*w, w->owed_at <= now);
            auto todo = std::exchange(home_.machine_.out, {});
            home_.mutex_.unlock();
            for (std::size_t i = 0; i < todo.size; ++i) todo.who[i]->woken.wake();
        }
        section(const section&) = delete;
        section& operator=(const section&) = delete;

        unsigned now = 0;

    private:
        toy_keeper& home_;
    };

    unsigned read_clock() {
        if (with_.bounded) touch("reads the clock", &clock_, false);
        return clock_;
    }

    /// A lane that has not recalled what it should have recalled changes no lease's date.
    void begin_period() { machine_.recalls = std::max(machine_.recalls, recalls_due_); }

    /// While the lane is open to newcomers, what the head is owed may be on the shelf.
    void set_timer(unsigned now) {
        if (!with_.bounded) return;
        bool shut = lane_->is_shut_for_waiters();
        fail_unless(!shut || machine_.owed_at() <= now, "the lane is shut for one to be bypassed");
        if (planted_ == toy_flaw::owed_has_no_timer) shut = true;
        unsigned at = shut ? machine_.wake_at() : machine_.owed_at();
        if (at == wake_at_) return;
        touch("sets the timer", &clock_, true);
        wake_at_ = at;
        timer_is_set_ = at != toy_machine::never;
    }

    history::past look_back() {
        unsigned now = read_clock();
        return events_.look(now);
    }
    item* served(item* r, const history::past& then, bool by_keeper) {
        events_.check_served(r, then, by_keeper);
        return r;
    }
    void end_lease(item* r) {
        r->owned = false;
        ++ended_;
    }

    item* take(std::size_t where) {
        bool must_return = false;
        item* r = lane_->take(where, must_return);
        if (r == nullptr) return nullptr;
        if (must_return) {
            return_item(where, r);
            return nullptr;
        }
        ++r->touches;
        return r;
    }

    bool ask_for(std::size_t where, waiter& who) {
        section here(*this);
        who.got = take_from_lane(here.now, where);
        return who.got == nullptr && machine_.acquire(here.now, who);
    }

    item* take_from_lane(unsigned now, std::size_t where) {
        item* r = lane_->take_at(now, where);
        if (r != nullptr) ++r->touches;
        return r;
    }

    void return_item(std::size_t where, item* r) {
        section here(*this);
        lane_->accept_returned_at(here.now, where, r);
    }

    void put_slowly(std::size_t where, item* r) {
        section here(*this);
        if (!lane_->put_at(here.now, where, r)) return_to_machine(here.now, r);
    }

    void return_to_machine(unsigned now, item* r) {
        lane_->note_return(r);
        machine_.take_back(now, r);
    }

    template <class Ask>
    void recall_with(Ask ask) {
        std::uint64_t recalls = 0;
        std::uint64_t generation = 0;
        {
            section here(*this);
            ask(here.now);
            generation = machine_.generation();
            recalls = recalls_due_;
        }
        events_.note_recall(recalls, generation);
    }

    toy_flaw planted_;
    scope with_;
    history events_;
    model_mutex mutex_;
    std::uint64_t ended_ = 0;  // leases, counted by their holders

    // The clock and its one timer, in steps of their own.
    unsigned clock_ = 0;
    unsigned wake_at_ = toy_machine::never;
    bool timer_is_set_ = false;

    // Guarded by the lock.
    toy_machine machine_;
    std::uint64_t recalls_due_ = 0;        // by the end of this section
    std::unique_ptr<lane_on_trial> lane_;  // its shelf also without the lock
};

/// At rest: what must be true of the shelf, the machine and the line. Counts in
/// `seen` where each item is.
inline std::string toy_keeper::judge(std::vector<unsigned>& seen) {
    const std::vector<item*> lying = lane_->empty();
    const bool on_shelf = !lying.empty();
    bool recalled_on_shelf = false;
    bool owing_on_shelf = false;
    for (item* r : lying) {
        owing_on_shelf |= r->owes;
        recalled_on_shelf |= r->lent_after < machine_.recalls;
        ++seen[r->number];
    }
    for (item* r : machine_.idle()) ++seen[r->number];
    for (item* r : machine_.retired()) ++seen[r->number];
    const bool waits = !machine_.line().empty();
    if (machine_.closed() && on_shelf) return "a resource stays on the shelf of a closed pool";
    if (machine_.closed() && waits) return "a waiter is left in a closed pool";
    if (recalled_on_shelf) return "a recalled resource is on the shelf";
    if (waits && on_shelf) return "a waiter waits while a resource is on the shelf";
    if (waits && !machine_.idle().empty()) return "a waiter waits while a resource is idle";
    if (on_shelf && lane_->raised() != 0) return "a resource is on the shelf of a shut lane";
    if (on_shelf && !lane_->is_swept()) return "a resource is on the shelf and no sweep is due";
    if (owing_on_shelf && !lane_->is_swept_soon(clock_))
        return "a resource that owes a reset is on the shelf and is swept too late";
    if (lane_->is_shut_for_waiters() != waits)
        return "the lane is shut without a waiter, or open with one";
    return "";
}

/// What the keeper has counted, against what there is.
inline std::string toy_keeper::judge_counts(const std::vector<item>& all,
                                            const std::vector<item*>& held) const {
    std::size_t recalled = 0;
    for (const item* r : held)
        if (r != nullptr && r->lent_after < machine_.recalls) ++recalled;
    if (recalled != lane_->recalled()) return "the leases that are recalled are miscounted";
    bool recalls = (lane_->raised() & detail::recalling) != 0;
    if (recalls != (recalled > 0)) return "the lane is shut for a recall that is over, or open";
    if (!with_.counts) return "";
    std::uint64_t counted = machine_.taken_back() - lane_->collected();
    for (const item& r : all) counted += r.puts.load();
    return counted == ended_ ? "" : "the end of a lease is miscounted";
}

}  // namespace cenote::interleave

// The keeper as far as the shelf can see it, for the model checker: a lock, a machine, a timer.
//
// It follows src/shell/keeper.cpp and keeper_shelf.cpp call by call and under the same names;
// whoever changes the order of what they do with the shelf changes it here, too. The machine is
// reduced to "the head of the line when it is owed something, else idle".
//
// Time is a number that grows only when the minder's timer comes: a waiter may be bypassed until
// the next such instant. A run of the model ends when nothing moves and no timer is set.
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

namespace cenote::interleave {

/// What is planted to see whether the checker has teeth.
enum class flaw {
    none,
    // the shelf itself
    put_does_not_look_again,
    take_ignores_attention,
    put_never_looks,
    // mind_the_lane
    waiter_raises_after_collecting,
    waiter_does_not_collect,
    collect_skips_a_cell,
    lowers_while_somebody_waits,
    // ... and who may be bypassed
    owed_never_shuts_the_lane,
    owed_has_no_timer,
    bypassed_shut_the_lane,
    // take_from_shelf
    steals_past_the_line,
    steals_on_a_shut_lane,
    steals_from_the_owed,
    // lay_on_shelf, hand_in, keep_on_shelf
    lays_on_a_shut_shelf,
    swap_loses_the_older,
    failed_swap_loses_the_older,
    swap_lays_over_another,
    hand_in_counts_a_release,
    counts_what_it_no_longer_holds,
    // sweep_shelf
    sweep_restores_on_a_shut_lane,
    sweep_restores_over_another,
    sweeper_sleeps_without_collecting,
    sweeper_is_not_woken,
    // close
    close_collects_first,
    close_does_not_collect,
    // recall
    recall_collects_first,
    recall_does_not_collect,
    recall_forgets_those_out,
    recall_ends_with_the_first,
    recall_counts_newer_leases,
    recall_counts_while_it_collects,
    recall_misses_what_is_brought_back,
    suspicion_is_not_noticed,
};

struct item {
    std::size_t number = 0;
    std::uint64_t generation = 0;
    std::uint64_t lent_after = 0;  // so many recalls had been when the machine lent it
    std::uint64_t touches = 0;
    std::uint64_t touches_swept = 0;
    bool owned = false;
    model_atomic<std::uint64_t> puts{0};  // only its holder writes it
};

struct waiter {
    model_wake woken;
    item* got = nullptr;
    std::uint32_t ticket = 0;  // one bit
    unsigned owed_at = 0;
};

/// The shelf, with its own flaws: each replaces one line of basic_shelf.
class shaky_shelf {
public:
    shaky_shelf(std::size_t count, std::uint32_t reasons, flaw planted)
        : sound_(count, reasons), planted_(planted) {}

    std::size_t size() const { return sound_.size(); }

    item* take(std::size_t where, bool& must_hand_in) {
        item* found = sound_.take(where, must_hand_in);
        if (planted_ == flaw::take_ignores_attention) must_hand_in = false;
        return found;
    }

    item* put(std::size_t where, item* r) {
        if (planted_ == flaw::put_does_not_look_again) {
            if (sound_.raised() != 0) return r;
            return sound_.restore(where, r) ? nullptr : r;
        }
        if (planted_ == flaw::put_never_looks) return sound_.restore(where, r) ? nullptr : r;
        return sound_.put(where, r);
    }

    void raise(std::uint32_t reason) { sound_.raise(reason); }
    void lower(std::uint32_t reason) { sound_.lower(reason); }
    std::uint32_t raised() const { return sound_.raised(); }
    item* collect(std::size_t index) { return sound_.collect(index); }
    bool restore(std::size_t index, item* r) { return sound_.restore(index, r); }

private:
    detail::basic_shelf<item, model_sync> sound_;
    flaw planted_;
};

/// What the promises are about: who is in line, and what has been done. Looked at and changed in
/// steps of its own, so that a borrower's view of it has a place in the order of things.
class history {
public:
    /// How things were when an acquire began.
    struct past {
        std::uint32_t lane_shut_for;  // tickets
        std::uint32_t due;            // by the clock; the fast lane has none
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

    /// Whoever made it wait is done with it.
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
        fail_unless((in_line_ & before_me) == 0,
                    "somebody who came later was served before the line");
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

/// What a machine is to the shelf. Used under the keeper's lock.
class toy_machine {
public:
    static constexpr unsigned never = ~0u;
    /// Those it has answered, to be woken after the lock.
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
    std::uint64_t generation_ = 0;
    std::uint64_t suspicion_ = 0;
    bool closed_ = false;
};

/// How much of the keeper is looked at; each makes a model larger.
struct scope {
    bool counts = false;   // its counters
    bool bounded = false;  // newcomers may bypass the head for a while: clock and timer
};

class toy_keeper {
public:
    toy_keeper(std::size_t cells, std::uint32_t reasons, scope with, flaw planted)
        : shelf_(cells, reasons, planted),
          planted_(planted),
          with_(with),
          machine_(events_, with.bounded),
          sweep_is_due_((reasons & detail::sweeper_asleep) == 0) {}

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
            r = take_from_shelf(here.now, where);
            if (r == nullptr) r = machine_.try_acquire(here.now);
        }
        return r == nullptr ? nullptr : served(r, before, true);
    }

    void release(std::size_t where, item* r) {
        begin_call("release");
        end_lease(r);
        ++r->touches;
        count_put(r, 1);
        if (item* back = shelf_.put(where, r); back != nullptr) hand_in(where, back);
    }

    /// The way of a lease that is not plain.
    void slow_release(std::size_t where, item* r) {
        begin_call("slow release");
        end_lease(r);
        section here(*this);
        if (!keep_on_shelf(here.now, where, r)) give_to_machine(here.now, r);
    }

    // The whole pool.

    void retire_all() {
        begin_call("retire_all");
        recall_with([this](unsigned now) {
            recall(now);
            machine_.retire_all(now);
        });
    }
    /// The machine finds that whatever is open may be broken; mind_the_lane sees it.
    void suspect_all() {
        begin_call("suspect_all");
        recall_with([this](unsigned now) { machine_.suspect_all(now); });
    }

    void close() {
        begin_call("close");
        {
            section here(*this);
            if (planted_ == flaw::close_collects_first) collect_shelf(here.now);
            shelf_.raise(detail::pool_closed);
            if (planted_ != flaw::close_collects_first && planted_ != flaw::close_does_not_collect)
                collect_shelf(here.now);
            machine_.close();
        }
        events_.note_close();
    }

    /// The tick at which the shelf is to be swept.
    void sweep() {
        begin_call("sweep");
        section here(*this);
        machine_.tick(here.now);
        if (sweep_is_due_) sweep_shelf(here.now);
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
        shelf_.restore(where, r);
    }
    std::string judge(std::vector<unsigned>& seen);
    std::string judge_counts(const std::vector<item>& all, const std::vector<item*>& held) const;
    std::size_t waiting() const { return machine_.line().size(); }

private:
    /// The keeper's enter(): lock, ask, sort out, unlock, carry out.
    class section {
    public:
        explicit section(toy_keeper& home) : home_(home) {
            home_.mutex_.lock();
            now = home_.read_clock();
        }
        ~section() {
            home_.mind_the_lane(now);
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

    /// While the lane is open to newcomers, what the head is owed may lie on the shelf.
    void set_timer(unsigned now) {
        if (!with_.bounded) return;
        bool shut = (shelf_.raised() & detail::somebody_waits) != 0;
        fail_unless(!shut || machine_.owed_at() <= now, "the lane is shut for one to be bypassed");
        if (planted_ == flaw::owed_has_no_timer) shut = true;
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
        bool must_hand_in = false;
        item* r = shelf_.take(where, must_hand_in);
        if (r == nullptr) return nullptr;
        if (must_hand_in) {
            hand_in(where, r);
            return nullptr;
        }
        ++r->touches;
        return r;
    }

    bool ask_for(std::size_t where, waiter& who) {
        section here(*this);
        who.got = take_from_shelf(here.now, where);
        return who.got == nullptr && machine_.acquire(here.now, who);
    }

    void hand_in(std::size_t where, item* r) {
        section here(*this);
        item* over = lay_on_shelf(here.now, where, r);
        if (over == nullptr) return;
        if (over != r && planted_ == flaw::swap_loses_the_older) return;
        if (planted_ == flaw::hand_in_counts_a_release) give_to_machine(here.now, over);
        else bring_back(here.now, over);
    }

    template <class Ask>
    void recall_with(Ask ask) {
        std::uint64_t recalls = 0;
        std::uint64_t generation = 0;
        {
            section here(*this);
            ask(here.now);
            generation = machine_.generation();
            // One that is still to come is the work of mind_the_lane, in this same section.
            recalls = machine_.recalls + (suspicion_ != machine_.suspicion() ? 1 : 0);
        }
        events_.note_recall(recalls, generation);
    }

    // What follows is keeper_shelf.cpp, under the lock.

    void mind_the_lane(unsigned now) {
        if (std::exchange(suspicion_, machine_.suspicion()) != machine_.suspicion()) {
            if (planted_ == flaw::suspicion_is_not_noticed) ++machine_.recalls;
            else recall(now);
        }
        if (is_owed(now) && (shelf_.raised() & detail::somebody_waits) == 0) shut_the_lane(now);
        bool early = planted_ == flaw::lowers_while_somebody_waits && machine_.out.size > 0;
        if (!is_owed(now) || early) shelf_.lower(detail::somebody_waits);
    }
    bool is_owed(unsigned now) const {
        unsigned at = machine_.owed_at();
        if (planted_ == flaw::owed_never_shuts_the_lane && with_.bounded) return false;
        if (planted_ == flaw::bypassed_shut_the_lane) return at != toy_machine::never;
        return at <= now;
    }
    void shut_the_lane(unsigned now) {
        if (planted_ == flaw::waiter_raises_after_collecting) collect_shelf(now);
        shelf_.raise(detail::somebody_waits);
        if (planted_ != flaw::waiter_raises_after_collecting &&
            planted_ != flaw::waiter_does_not_collect)
            collect_shelf(now);
    }

    item* take_from_shelf(unsigned now, std::size_t first) {
        bool past_the_line = planted_ == flaw::steals_past_the_line;
        bool open = lane_is_open(past_the_line ? std::uint32_t{detail::somebody_waits} : 0);
        if (!open && planted_ != flaw::steals_on_a_shut_lane) return nullptr;
        bool owed = machine_.owed_at() <= now && planted_ != flaw::steals_from_the_owed;
        if (owed && !past_the_line) return nullptr;
        for (std::size_t i = 0; i < shelf_.size(); ++i)
            if (item* r = shelf_.collect((first + i) % shelf_.size()); r != nullptr) {
                ++r->touches;
                return r;
            }
        return nullptr;
    }

    void give_to_machine(unsigned now, item* r) {
        forget_recalled(r);
        ++released_;
        machine_.take_back(now, r);
    }

    void bring_back(unsigned now, item* r) {
        if (planted_ != flaw::recall_misses_what_is_brought_back) forget_recalled(r);
        ++collected_;
        ++released_;
        machine_.take_back(now, r);
    }

    void recall(unsigned now) {
        if (planted_ == flaw::recall_collects_first) collect_shelf(now);
        shelf_.raise(detail::recalling);
        // The count of a recall before this one is void. Were it to reach zero here, it would open
        // the lane to those that are being recalled.
        if (planted_ != flaw::recall_counts_while_it_collects) recalled_ = 0;
        if (planted_ != flaw::recall_collects_first && planted_ != flaw::recall_does_not_collect)
            collect_shelf(now);
        ++machine_.recalls;
        recalled_ = planted_ == flaw::recall_forgets_those_out ? 0 : machine_.leased();
        if (recalled_ == 0) shelf_.lower(detail::recalling);
    }

    void forget_recalled(const item* r) {
        bool newer = r->lent_after >= machine_.recalls;
        if (recalled_ == 0 || (newer && planted_ != flaw::recall_counts_newer_leases)) return;
        if (planted_ == flaw::recall_ends_with_the_first) recalled_ = 1;
        if (--recalled_ == 0) shelf_.lower(detail::recalling);
    }

    void collect_shelf(unsigned now) {
        std::size_t first = planted_ == flaw::collect_skips_a_cell ? 1 : 0;
        for (std::size_t i = first; i < shelf_.size(); ++i)
            if (item* r = shelf_.collect(i); r != nullptr) bring_back(now, r);
    }

    bool lane_is_open(std::uint32_t also_harmless = 0) const {
        return (shelf_.raised() & ~(detail::sweeper_asleep | also_harmless)) == 0;
    }

    /// Returns what has no place on the shelf: null, the other one that lay there, or this one.
    item* lay_on_shelf(unsigned now, std::size_t cell, item* r) {
        if (!lane_is_open() && planted_ != flaw::lays_on_a_shut_shelf) return r;
        item* older = shelf_.collect(cell);
        if (!shelf_.restore(cell, r) && planted_ != flaw::swap_lays_over_another) {
            if (older != nullptr && planted_ != flaw::failed_swap_loses_the_older)
                bring_back(now, older);
            return r;
        }
        if (!sweep_is_due_) {
            sweep_is_due_ = true;
            if (planted_ != flaw::sweeper_is_not_woken) shelf_.lower(detail::sweeper_asleep);
        }
        return older;
    }

    bool keep_on_shelf(unsigned now, std::size_t cell, item* r) {
        const bool late = planted_ == flaw::counts_what_it_no_longer_holds;
        ++r->touches;
        if (!late) count_put(r, 1);
        item* over = lay_on_shelf(now, cell, r);
        if (over == r) {
            --r->touches;
            if (!late) count_put(r, -1);
            return false;
        }
        if (late) count_put(r, 1);
        if (over != nullptr) bring_back(now, over);
        return true;
    }

    void sweep_shelf(unsigned now) {
        bool hot = false;
        for (std::size_t i = 0; i < shelf_.size(); ++i) {
            item* r = shelf_.collect(i);
            if (r == nullptr) continue;
            bool touched = r->touches != r->touches_swept;
            bool open = shelf_.raised() == 0 || planted_ == flaw::sweep_restores_on_a_shut_lane;
            bool stays = touched && open;
            if (stays) r->touches_swept = r->touches;
            if (stays && restore_swept(i, r)) hot = true;
            else bring_back(now, r);
        }
        if (hot) return;
        sweep_is_due_ = false;
        shelf_.raise(detail::sweeper_asleep);
        if (planted_ != flaw::sweeper_sleeps_without_collecting) collect_shelf(now);
    }
    bool restore_swept(std::size_t index, item* r) {
        if (planted_ == flaw::sweep_restores_over_another) shelf_.collect(index);
        return shelf_.restore(index, r);
    }

    /// Read and written by the holder alone, so nothing may get lost.
    void count_put(item* r, int n) {
        if (!with_.counts) return;
        std::uint64_t before = r->puts.load();
        r->puts.store(before + static_cast<std::uint64_t>(n));
    }

    shaky_shelf shelf_;
    flaw planted_;
    scope with_;
    history events_;
    model_mutex mutex_;
    std::uint64_t ended_ = 0;  // leases, by those who held them

    // The clock and its one timer, in steps of their own.
    unsigned clock_ = 0;
    unsigned wake_at_ = toy_machine::never;
    bool timer_is_set_ = false;

    // Guarded by the lock.
    toy_machine machine_;
    std::size_t recalled_ = 0;
    std::uint64_t suspicion_ = 0;
    bool sweep_is_due_;
    std::uint64_t released_ = 0;
    std::uint64_t collected_ = 0;
};

/// Nothing moves any more: what must be true of the shelf, the machine and the line. Counts in
/// `seen` where each item is.
inline std::string toy_keeper::judge(std::vector<unsigned>& seen) {
    bool on_shelf = false;
    bool recalled_on_shelf = false;
    for (std::size_t i = 0; i < shelf_.size(); ++i)
        if (item* r = shelf_.collect(i); r != nullptr) {
            on_shelf = true;
            recalled_on_shelf |= r->lent_after < machine_.recalls;
            ++seen[r->number];
        }
    for (item* r : machine_.idle()) ++seen[r->number];
    for (item* r : machine_.retired()) ++seen[r->number];
    const bool waits = !machine_.line().empty();
    if (machine_.closed() && on_shelf) return "a resource stays on the shelf of a closed pool";
    if (machine_.closed() && waits) return "somebody waits in a closed pool";
    if (recalled_on_shelf) return "a recalled resource lies on the shelf";
    if (waits && on_shelf) return "somebody waits while a resource lies on the shelf";
    if (waits && !machine_.idle().empty()) return "somebody waits while a resource is idle";
    if (on_shelf && shelf_.raised() != 0) return "a resource lies on the shelf behind a shut lane";
    if (on_shelf && !sweep_is_due_) return "a resource lies on the shelf and nobody sweeps it";
    bool shut = (shelf_.raised() & detail::somebody_waits) != 0;
    if (shut != waits) return "the lane is shut for nobody, or open while somebody waits";
    return "";
}

/// What the keeper has counted, against what there is.
inline std::string toy_keeper::judge_counts(const std::vector<item>& all,
                                            const std::vector<item*>& held) const {
    std::size_t recalled = 0;
    for (const item* r : held)
        if (r != nullptr && r->lent_after < machine_.recalls) ++recalled;
    if (recalled != recalled_) return "the leases that are recalled are miscounted";
    bool recalls = (shelf_.raised() & detail::recalling) != 0;
    if (recalls != (recalled > 0)) return "the lane is shut for a recall that is over, or open";
    if (!with_.counts) return "";
    std::uint64_t counted = released_ - collected_;
    for (const item& r : all) counted += r.puts.load();
    return counted == ended_ ? "" : "the end of a lease is miscounted";
}

}  // namespace cenote::interleave

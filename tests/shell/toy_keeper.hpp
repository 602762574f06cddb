// The keeper as far as the shelf can see it, for the model checker: a lock, idle resources, a line.
//
// It follows src/shell/keeper.cpp and keeper_shelf.cpp call by call; whoever changes the order of
// what they do with the shelf changes it here, too. The machine is reduced to "the head of the
// line, else idle".
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cenote/detail/shelf.hpp"
#include "shell/interleave.hpp"

namespace cenote::interleave {

/// What is planted to see whether the checker has teeth.
enum class flaw {
    none,
    put_does_not_look_again,
    take_ignores_attention,
    put_never_looks,
    waiter_raises_after_collecting,
    waiter_does_not_collect,
    collect_skips_a_cell,
    lowers_while_somebody_waits,
    steals_past_the_line,
    steals_on_a_shut_lane,
    sweep_restores_on_a_shut_lane,
    sweep_restores_over_another,
    sweeper_sleeps_without_collecting,
    close_collects_first,
    close_does_not_collect,
    retire_collects_first,
    retire_forgets_those_out,
    keeps_on_a_shut_shelf,
    counts_what_it_no_longer_holds,
};

struct item {
    std::size_t number = 0;
    std::uint64_t generation = 0;
    std::uint64_t hits = 0;
    std::uint64_t hits_swept = 0;
    bool owned = false;
    model_atomic<std::uint64_t> puts{0};  // only its holder writes it
    std::uint64_t puts_expected = 0;
};

/// The shelf, with its own flaws: each replaces one line of basic_shelf.
class shaky_shelf {
public:
    shaky_shelf(std::size_t count, std::uint32_t reasons, flaw planted)
        : sound_(count, reasons), planted_(planted) {}

    std::size_t size() const { return sound_.size(); }

    item* take(std::size_t where, bool& must_hand_in) {
        if (planted_ != flaw::take_ignores_attention) return sound_.take(where, must_hand_in);
        item* found = sound_.take(where, must_hand_in);
        must_hand_in = false;
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

class toy_keeper {
public:
    /// `counts`: counters are part of the model, too; that makes it larger.
    toy_keeper(std::size_t cells, std::uint32_t reasons, bool counts, flaw planted)
        : shelf_(cells, reasons, planted), planted_(planted), counts_(counts) {}

    /// Null: the pool is closed.
    item* acquire(std::size_t where) {
        begin_call("acquire");
        const past before = look_back();
        item* r = take(where);
        if (r == nullptr) r = wait(where);
        if (r != nullptr) check_served(r, before);
        return r;
    }

    /// Null: nothing is ready.
    item* try_acquire(std::size_t where) {
        begin_call("try_acquire");
        const past before = look_back();
        item* r = take(where);
        if (r == nullptr) {
            section lock(*this);
            r = steal(where);
            if (r == nullptr && line_.empty() && !idle_.empty()) r = lend_idle();
        }
        if (r != nullptr) check_served(r, before);
        return r;
    }

    void release(std::size_t where, item* r) {
        begin_call("release");
        r->owned = false;
        count_put(r, 1);
        if (item* back = shelf_.put(where, r); back != nullptr) hand_in(back);
    }

    /// The way of a lease that is not plain.
    void slow_release(std::size_t where, item* r) {
        begin_call("slow release");
        r->owned = false;
        section lock(*this);
        if (!keep_on_shelf(where, r)) give(r);
    }

    void sweep() {
        begin_call("sweep");
        section lock(*this);
        bool hot = false;
        const bool open = planted_ == flaw::sweep_restores_on_a_shut_lane || shelf_.raised() == 0;
        for (std::size_t i = 0; i < shelf_.size(); ++i) {
            item* r = shelf_.collect(i);
            if (r == nullptr) continue;
            bool touched = std::exchange(r->hits_swept, r->hits) != r->hits;
            bool stays = touched && open && restore(i, r);
            hot |= stays;
            if (!stays) give(r);
        }
        if (hot) return;
        shelf_.raise(detail::sweeper_asleep);
        if (planted_ != flaw::sweeper_sleeps_without_collecting) collect_all();
    }

    void close() {
        begin_call("close");
        {
            section lock(*this);
            if (planted_ == flaw::close_collects_first) collect_all();
            shelf_.raise(detail::pool_closed);
            if (planted_ != flaw::close_collects_first && planted_ != flaw::close_does_not_collect)
                collect_all();
            closed_ = true;
            while (!line_.empty()) lock.owe(leave_line(), nullptr);
            retire_idle();
        }
        touch("done", &history_, true);
        was_closed_ = true;
    }

    void retire_all() {
        begin_call("retire_all");
        {
            section lock(*this);
            if (planted_ == flaw::retire_collects_first) collect_all();
            shelf_.raise(detail::recalling);
            if (planted_ != flaw::retire_collects_first) collect_all();
            ++generation_;
            retire_idle();
            recalled_ = planted_ == flaw::retire_forgets_those_out ? 0 : out_;
            if (recalled_ == 0) shelf_.lower(detail::recalling);
        }
        touch("done", &history_, true);
        retired_up_to_ = generation_;
    }

    // Before the run and after it.
    void start_with(item* r, bool held) {
        ++out_;
        r->owned = held;
        if (!held) give(r);
    }
    void lay_on_shelf(std::size_t where, item* r) {
        ++out_;
        shelf_.restore(where, r);
    }
    std::string judge(std::vector<unsigned>& seen);
    std::size_t waiting() const { return line_.size(); }

private:
    struct waiter {
        model_wake woken;
        item* got = nullptr;
        std::uint32_t ticket = 0;
    };

    /// The keeper's enter(): lock, decide, settle, unlock, notify.
    class section {
    public:
        explicit section(toy_keeper& home) : home_(home) {
            home_.mutex_.lock();
            home_.here_ = this;
        }
        ~section() {
            home_.settle();
            home_.here_ = nullptr;
            home_.mutex_.unlock();
            for (std::size_t i = 0; i < owed_; ++i) chain_[i]->woken.wake();
        }
        section(const section&) = delete;
        section& operator=(const section&) = delete;

        void owe(waiter* w, item* r) {
            w->got = r;
            chain_[owed_++] = w;
        }

    private:
        toy_keeper& home_;
        std::array<waiter*, explorer::most_fibers> chain_{};
        std::size_t owed_ = 0;
    };

    /// What the properties compare with: how things were when an acquire began.
    struct past {
        std::uint32_t in_line;
        std::uint64_t retired_up_to;
        bool was_closed;
    };
    past look_back() {
        touch("comes", &history_, false);
        return {in_line_, retired_up_to_, was_closed_};
    }

    item* take(std::size_t where) {
        bool must_hand_in = false;
        item* r = shelf_.take(where, must_hand_in);
        if (r == nullptr) return nullptr;
        if (!must_hand_in) return ++r->hits, r;
        hand_in(r);
        return nullptr;
    }

    item* wait(std::size_t where) {
        waiter me;
        {
            section lock(*this);
            if (item* r = steal(where); r != nullptr) return r;
            if (closed_ || idle_.empty() || !line_.empty()) shut_the_lane();
            if (closed_) return nullptr;
            if (line_.empty() && !idle_.empty()) return lend_idle();
            touch("joins the line", &history_, true);
            me.ticket = 1u << tickets_++;
            in_line_ |= me.ticket;
            line_.push_back(&me);
        }
        me.woken.wait();
        return me.got;
    }

    void shut_the_lane() {
        if (planted_ == flaw::waiter_raises_after_collecting) collect_all();
        shelf_.raise(detail::somebody_waits);
        if (planted_ != flaw::waiter_raises_after_collecting &&
            planted_ != flaw::waiter_does_not_collect)
            collect_all();
    }

    void hand_in(item* r) {
        section lock(*this);
        give(r);
    }

    item* steal(std::size_t first) {
        if (!line_.empty() && planted_ != flaw::steals_past_the_line) return nullptr;
        std::uint32_t harmless = detail::sweeper_asleep;
        if (planted_ == flaw::steals_past_the_line) harmless |= detail::somebody_waits;
        if (planted_ != flaw::steals_on_a_shut_lane && (shelf_.raised() & ~harmless) != 0)
            return nullptr;
        for (std::size_t i = 0; i < shelf_.size(); ++i)
            if (item* r = shelf_.collect((first + i) % shelf_.size()); r != nullptr) {
                ++r->hits;
                return r;
            }
        return nullptr;
    }

    bool keep_on_shelf(std::size_t where, item* r) {
        std::uint32_t raised = shelf_.raised();
        bool shut = (raised & ~std::uint32_t{detail::sweeper_asleep}) != 0;
        if (shut && planted_ != flaw::keeps_on_a_shut_shelf) return false;
        const bool late = planted_ == flaw::counts_what_it_no_longer_holds;
        if (!late) count_put(r, 1);
        if (!shelf_.restore(where, r)) {
            if (!late) count_put(r, -1);
            return false;
        }
        if (late) count_put(r, 1);
        if ((raised & detail::sweeper_asleep) != 0) shelf_.lower(detail::sweeper_asleep);
        return true;
    }

    void count_put(item* r, int n) {
        if (!counts_) return;
        auto more = static_cast<std::uint64_t>(n);
        std::uint64_t before = r->puts.load();
        r->puts.store(before + more);
        r->puts_expected += more;
    }

    bool restore(std::size_t index, item* r) {
        if (planted_ != flaw::sweep_restores_over_another) return shelf_.restore(index, r);
        shelf_.collect(index);
        return shelf_.restore(index, r);
    }

    void collect_all() {
        std::size_t first = planted_ == flaw::collect_skips_a_cell ? 1 : 0;
        for (std::size_t i = first; i < shelf_.size(); ++i)
            if (item* r = shelf_.collect(i); r != nullptr) give(r);
    }

    /// A resource comes back to the machine.
    void give(item* r) {
        --out_;
        if (recalled_ > 0 && r->generation != generation_ && --recalled_ == 0)
            shelf_.lower(detail::recalling);
        if (closed_ || r->generation != generation_) return retire(r);
        if (line_.empty()) return idle_.push_back(r);
        ++out_;
        here_->owe(leave_line(), r);
    }

    waiter* leave_line() {
        touch("leaves the line", &history_, true);
        waiter* w = line_.front();
        line_.erase(line_.begin());
        in_line_ &= ~w->ticket;
        if (planted_ == flaw::lowers_while_somebody_waits) shelf_.lower(detail::somebody_waits);
        return w;
    }

    void settle() {
        if (line_.empty() && (shelf_.raised() & detail::somebody_waits) != 0)
            shelf_.lower(detail::somebody_waits);
    }

    item* lend_idle() {
        item* r = idle_.back();
        idle_.pop_back();
        ++out_;
        return r;
    }
    void retire(item* r) { retired_.push_back(r); }
    void retire_idle() {
        for (item* r : idle_) retire(r);
        idle_.clear();
    }

    void check_served(item* r, const past& then) {
        touch("is served", &history_, false);
        fail_unless((in_line_ & then.in_line) == 0,
                    "somebody who came later was served before the line");
        fail_unless(r->generation >= then.retired_up_to,
                    "a resource was lent that retire_all had retired");
        fail_unless(!then.was_closed, "a closed pool lent a resource");
        fail_unless(!r->owned, "a resource has two owners");
        r->owned = true;
    }

    shaky_shelf shelf_;
    flaw planted_;
    bool counts_;
    model_mutex mutex_;

    // Guarded by the lock.
    section* here_ = nullptr;
    std::vector<item*> idle_;
    std::vector<item*> retired_;
    std::vector<waiter*> line_;
    std::size_t out_ = 0;
    std::size_t recalled_ = 0;
    std::uint64_t generation_ = 0;
    unsigned tickets_ = 0;
    bool closed_ = false;

    // What the properties are about; looked at and changed in steps of their own.
    char history_ = 0;
    std::uint32_t in_line_ = 0;  // tickets
    std::uint64_t retired_up_to_ = 0;
    bool was_closed_ = false;
};

/// Nothing moves any more: what must be true of the shelf, the idle and the line. Counts in `seen`
/// where each item is.
inline std::string toy_keeper::judge(std::vector<unsigned>& seen) {
    bool on_shelf = false;
    for (std::size_t i = 0; i < shelf_.size(); ++i)
        if (item* r = shelf_.collect(i); r != nullptr) {
            on_shelf = true;
            ++seen[r->number];
        }
    for (item* r : idle_) ++seen[r->number];
    for (item* r : retired_) ++seen[r->number];
    if (closed_ && on_shelf) return "a resource stays on the shelf of a closed pool";
    if (closed_ && !line_.empty()) return "somebody waits in a closed pool";
    if (!line_.empty() && on_shelf) return "somebody waits while a resource lies on the shelf";
    if (!line_.empty() && !idle_.empty()) return "somebody waits while a resource is idle";
    if (on_shelf && shelf_.raised() != 0) return "a resource lies on the shelf behind a shut lane";
    bool shut = (shelf_.raised() & detail::somebody_waits) != 0;
    if (shut != !line_.empty()) return "the lane is shut for nobody, or open while somebody waits";
    bool recalls = (shelf_.raised() & detail::recalling) != 0;
    if (recalls != (recalled_ > 0)) return "the lane is shut for a recall that is over";
    return "";
}

}  // namespace cenote::interleave

// The fast lane, as the keeper sees it: what goes onto the shelf, what is brought back, and when.
//
// Borrowers use the shelf itself (cenote/detail/shelf.hpp) without the lock. Everything here runs
// under the keeper's lock. To the machine, what is on the shelf is leased.
//
// `Pool` is what the lane needs of the pool around it; see lane_pool.hpp. It is a template
// parameter, like the atomics of its shelf, so that the model checker
// (tests/shell/lane_model_test.cpp) runs this very class in every interleaving.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "cenote/detail/shelf.hpp"
#include "core/tally.hpp"

namespace cenote::shell {

template <class Pool>
class basic_lane {
public:
    using item = typename Pool::item;
    using instant = typename Pool::instant;
    using date = typename Pool::date;

    basic_lane(Pool& pool, typename Pool::shelf& cells) : pool_(pool), shelf_(cells) {}

    bool is_open() const { return (shelf_.raised() & ~std::uint32_t{detail::sweeper_asleep}) == 0; }
    /// Whether the lane is shut because a waiter is owed the next resource.
    bool is_shut_for_waiters() const { return (shelf_.raised() & detail::waiter_owed) != 0; }
    /// Whether sweeps run: only then can anything be on the shelf.
    bool is_swept() const { return sweep_at_ != Pool::never; }
    instant sweep_at() const { return sweep_at_; }
    /// The next sweep comes no later than this: a resource that was lent expires then.
    void sweep_by(instant at) {
        if (is_swept() && at < sweep_at_) sweep_at_ = at;
    }
    /// Whether leases from before the last recall are still out.
    bool has_recalled() const { return recalled() > 0; }
    std::size_t recalled() const { return recalled_; }
    /// How many resources came back from the shelf to the machine. Also without the lock.
    std::uint64_t collected() const { return collected_.get(); }

    /// Shuts the lane when a waiter is owed the next resource, and opens it when none is.
    void follow_line(instant now) {
        if (std::exchange(suspicion_, pool_.suspicion()) != pool_.suspicion()) recall(now);
        if (pool_.owes_waiter(now) && !is_shut_for_waiters()) shut(now, detail::waiter_owed);
        if (!pool_.owes_waiter(now)) shelf_.lower(detail::waiter_owed);
    }

    /// First raises the reason, then empties the cells: rule 1 of the shelf.
    void shut(instant now, std::uint32_t reason) {
        shelf_.raise(reason);
        collect(now);
    }
    void open(std::uint32_t reason) { shelf_.lower(reason); }

    /// Shuts the lane for long, or for good: no sweeps run until it is opened and used.
    void close(instant now, std::uint32_t reason) {
        shut(now, reason);
        sleep();
    }

    /// A hot resource from any cell, if the lane is open. While it is shut, a resource in a cell
    /// was put there too late, and the borrower that put it is about to take it out.
    item* take(instant now) {
        if (!is_open() || pool_.owes_waiter(now)) return nullptr;
        std::size_t first = pool_.cell();
        for (std::size_t i = 0; i < shelf_.size(); ++i) {
            item* r = shelf_.collect((first + i) % shelf_.size());
            if (r == nullptr) continue;
            if (!pool_.is_expired(now, r)) return r;
            bring_back(now, r);
        }
        return nullptr;
    }

    /// Ends a lease by putting its resource on the shelf. False: the lane does not accept it.
    bool put(instant now, item* r) {
        if (!is_open()) return false;
        // Counted first: on the shelf, a borrower may take it.
        auto before = pool_.count_put(r);
        item* over = place(now, r);
        if (over == r) {
            pool_.undo_put(r, before);
            return false;
        }
        if (over != nullptr) bring_back(now, over);
        return true;
    }

    /// Ends the lease of a resource that its borrower could not put on the shelf, or that take()
    /// must return.
    void accept_returned(instant now, item* r) {
        if (item* over = place(now, r); over != nullptr) bring_back(now, over);
    }

    /// Brings everything on the shelf back to the machine.
    void collect(instant now) {
        for (std::size_t i = 0; i < shelf_.size(); ++i)
            if (item* r = shelf_.collect(i); r != nullptr) bring_back(now, r);
    }

    /// Requires that every present lease ends at the machine.
    void recall(instant now) {
        recalled_ = 0;  // what is found on the shelf must not end an earlier recall, and this one
        shut(now, detail::recalling);
        recalled_at_ = pool_.date_of(now);
        recalled_ = pool_.leased();
        if (recalled_ == 0) shelf_.lower(detail::recalling);
    }
    /// The caller has done what follows from the machine's suspicion.
    void suspicion_is_handled() { suspicion_ = pool_.suspicion(); }

    /// A lease ends at the machine. The last lease from before a recall opens the lane again.
    void note_return(const item* r) {
        if (recalled_ == 0 || pool_.lent_at(r) > recalled_at_) return;
        if (--recalled_ == 0) shelf_.lower(detail::recalling);
    }

    /// Brings back what was not touched since the last sweep, so that the shelf has only hot
    /// resources. If none is left the sweeper sleeps, and the next release wakes it.
    void sweep(instant now) {
        pool_.before_sweep(now);
        bool hot = false;
        for (std::size_t i = 0; i < shelf_.size(); ++i)
            if (item* r = shelf_.collect(i); r != nullptr) hot |= restore_if_hot(now, i, r);
        swept_before_ = std::exchange(swept_at_, now);
        sweep_at_ = next_sweep(now);
        if (hot) return;
        sleep();
        collect(now);            // rule 1 of the shelf
        pool_.fell_asleep(now);  // and looks for leases taken meanwhile
    }

    /// In the child of a fork, where the shelf is empty.
    void restart() {
        sleep();
        shelf_.lower(detail::waiter_owed | detail::recalling | detail::pool_paused |
                     detail::circuit_open | detail::no_maintenance);
        collected_.set(0);
        recalled_ = 0;
        recalled_at_ = {};
        suspicion_ = pool_.suspicion();
    }

private:
    /// Brings a resource from the shelf to the machine. It was idle since some time after the last
    /// sweep, or since before that sweep.
    void bring_back(instant now, item* r) {
        note_return(r);
        ++collected_;
        bool touched = pool_.touches(r) != r->touches_swept;
        pool_.bring_back(now, r, touched ? now : swept_before_);
    }

    /// Puts a resource on the shelf in place of the one there, because the last one used is lent
    /// first. Returns the resource that has no place: null, the other one, or this one.
    item* place(instant now, item* r) {
        if (!is_open() || pool_.is_used_up(r) || pool_.is_expired(now, r)) return r;
        std::size_t cell = pool_.cell() % shelf_.size();
        if (pool_.owes_reset(r)) expect_owing(now);
        item* older = shelf_.collect(cell);
        if (!shelf_.restore(cell, r)) {
            if (older != nullptr) bring_back(now, older);
            return r;
        }
        if (!is_swept()) wake_up(now);
        return older;
    }

    bool restore_if_hot(instant now, std::size_t cell, item* r) {
        bool touched = pool_.touches(r) != r->touches_swept;
        pool_.clear_lease_time(r);
        // Nothing is put on a shut lane: the waiter that is owed it would not be told.
        bool fit = touched && shelf_.raised() == 0 && !pool_.is_expired(now, r);
        if (fit) r->touches_swept = pool_.touches(r);
        if (fit && shelf_.restore(cell, r)) return true;
        bring_back(now, r);
        return false;
    }

    void wake_up(instant now) {
        swept_at_ = swept_before_ = now;
        sweep_at_ = next_sweep(now);
        pool_.woke_up(now);
        shelf_.lower(detail::sweeper_asleep);
    }
    /// From now on resources on the shelf may owe a reset, and sweeps come in time for it.
    void expect_owing(instant now) {
        if (std::exchange(some_owe_, true)) return;
        sweep_by(next_sweep(now));
        shelf_.accept_owing();
    }
    instant next_sweep(instant now) const { return pool_.next_sweep(now, some_owe_); }
    void sleep() {
        sweep_at_ = Pool::never;
        shelf_.raise(detail::sweeper_asleep);
    }

    Pool& pool_;
    typename Pool::shelf& shelf_;
    core::tally collected_;
    bool some_owe_ = false;     // resources on the shelf may owe a reset
    std::size_t recalled_ = 0;  // leases from before the last recall that are still out
    date recalled_at_{};
    typename Pool::suspicion_mark suspicion_ =
        Pool::no_suspicion;   // the machine's, as handled here
    instant swept_at_{};      // the last sweep
    instant swept_before_{};  // the one before it
    instant sweep_at_ = Pool::never;
};

}  // namespace cenote::shell

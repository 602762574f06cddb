// The fast lane, as the keeper sees it: what goes onto the shelf, what is brought back, and when.
//
// The shelf itself (cenote/detail/shelf.hpp) is what borrowers use without the lock. Everything
// here runs under the keeper's lock. To the machine, what lies on the shelf is leased.
//
// `Pool` is what the lane needs to know of the pool around it, and what it has the pool do; see
// lane_pool.hpp. It is a parameter, and so are the atomics of its shelf, so that the model checker
// (tests/shell/lane_model_test.cpp) runs this very class under every interleaving.
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
    /// A waiter is owed the next resource, and the lane is shut for that.
    bool is_shut_for_waiters() const { return (shelf_.raised() & detail::somebody_waits) != 0; }
    /// Something may lie on the shelf, and sweeps look after it.
    bool is_swept() const { return sweep_at_ != Pool::never; }
    instant sweep_at() const { return sweep_at_; }
    /// No later than that: a resource that is lent grows too old then.
    void sweep_by(instant at) {
        if (is_swept() && at < sweep_at_) sweep_at_ = at;
    }
    /// Leases from before the last recall are still out.
    bool has_recalled() const { return recalled() > 0; }
    std::size_t recalled() const { return recalled_; }
    /// How many resources came back from the shelf to the machine. Also without the lock.
    std::uint64_t collected() const { return collected_.get(); }

    /// Shuts the lane when a waiter is owed the next resource, and opens it again.
    void mind(instant now) {
        if (std::exchange(suspicion_, pool_.suspicion()) != pool_.suspicion()) recall(now);
        if (pool_.owes(now) && !is_shut_for_waiters()) shut(now, detail::somebody_waits);
        if (!pool_.owes(now)) shelf_.lower(detail::somebody_waits);
    }

    /// First the reason, then a look at what lies there: rule 1 of the shelf.
    void shut(instant now, std::uint32_t reason) {
        shelf_.raise(reason);
        collect(now);
    }
    void open(std::uint32_t reason) { shelf_.lower(reason); }

    /// Shuts the lane for good, or until it is opened; there is nothing to be swept meanwhile.
    void close(instant now, std::uint32_t reason) {
        shut(now, reason);
        sleep();
    }

    /// A hot resource from any cell, if the lane is open. What is in a cell while it is shut was
    /// laid there too late, and its borrower is about to take it out again.
    item* take(instant now) {
        if (!is_open() || pool_.owes(now)) return nullptr;
        std::size_t first = pool_.cell();
        for (std::size_t i = 0; i < shelf_.size(); ++i) {
            item* r = shelf_.collect((first + i) % shelf_.size());
            if (r == nullptr) continue;
            if (!pool_.is_expired(now, r)) return r;
            bring_back(now, r);
        }
        return nullptr;
    }

    /// Ends a lease by laying its resource on the shelf. False: the lane is not open to it.
    bool keep(instant now, item* r) {
        if (!is_open()) return false;
        // Counted first: once it lies there it is no longer ours.
        auto before = pool_.count_put(r);
        item* over = lay(now, r);
        if (over == r) {
            pool_.take_back_put(r, before);
            return false;
        }
        if (over != nullptr) bring_back(now, over);
        return true;
    }

    /// The end of a lease on the fast lane whose resource did not get onto the shelf.
    void hand_in(instant now, item* r) {
        if (item* over = lay(now, r); over != nullptr) bring_back(now, over);
    }

    /// Brings everything that lies on the shelf back to the machine.
    void collect(instant now) {
        for (std::size_t i = 0; i < shelf_.size(); ++i)
            if (item* r = shelf_.collect(i); r != nullptr) bring_back(now, r);
    }

    /// What is leased now must pass the machine when it comes back.
    void recall(instant now) {
        recalled_ = 0;  // what is found on the shelf must not end an earlier recall, and this one
        shut(now, detail::recalling);
        recalled_at_ = pool_.date_of(now);
        recalled_ = pool_.leased();
        if (recalled_ == 0) shelf_.lower(detail::recalling);
    }
    /// The machine's suspicion is known, and what follows from it has been done.
    void has_heard_of_suspicion() { suspicion_ = pool_.suspicion(); }

    /// A lease ends at the machine. The lane opens again when all from before the last recall are
    /// back.
    void is_back(const item* r) {
        if (recalled_ == 0 || pool_.lent_at(r) > recalled_at_) return;
        if (--recalled_ == 0) shelf_.lower(detail::recalling);
    }

    /// Brings back what was not touched since the last time, so that what lies on the shelf is hot.
    /// With nothing left there it goes to sleep, and the next release wakes it.
    void sweep(instant now) {
        pool_.before_sweep(now);
        bool hot = false;
        for (std::size_t i = 0; i < shelf_.size(); ++i)
            if (item* r = shelf_.collect(i); r != nullptr) hot |= stays(now, i, r);
        swept_before_ = std::exchange(swept_at_, now);
        sweep_at_ = next_sweep(now);
        if (hot) return;
        sleep();
        collect(now);            // rule 1 of the shelf
        pool_.fell_asleep(now);  // and looks for what was taken meanwhile
    }

    /// In the child of a fork, where the shelf is empty.
    void start_anew() {
        sleep();
        shelf_.lower(detail::somebody_waits | detail::recalling | detail::pool_paused |
                     detail::circuit_open | detail::no_maintenance);
        collected_.set(0);
        recalled_ = 0;
        recalled_at_ = {};
        suspicion_ = pool_.suspicion();
    }

private:
    /// To the machine with a resource that came over the shelf and that nothing leases any more. It
    /// was idle since some time after the last sweep, or since before it.
    void bring_back(instant now, item* r) {
        is_back(r);
        ++collected_;
        bool touched = pool_.touches(r) != r->touches_swept;
        pool_.bring_back(now, r, touched ? now : swept_before_);
    }

    /// Lays a resource on the shelf, in place of the one that lies there: the last one used is lent
    /// first. Returns what has no place there: null, the other one, or this one.
    item* lay(instant now, item* r) {
        if (!is_open() || pool_.is_used_up(r) || pool_.is_expired(now, r)) return r;
        std::size_t cell = pool_.cell() % shelf_.size();
        if (pool_.has_debt(r)) expect_debts(now);
        item* older = shelf_.collect(cell);
        if (!shelf_.restore(cell, r)) {
            if (older != nullptr) bring_back(now, older);
            return r;
        }
        if (!is_swept()) wake_up(now);
        return older;
    }

    bool stays(instant now, std::size_t cell, item* r) {
        bool touched = pool_.touches(r) != r->touches_swept;
        pool_.lies_here(r);
        // Onto a shut lane nothing is laid: the waiter who is owed it would not hear of it.
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
    /// What lies on the shelf may owe a reset from now on, and is brought back in time for it.
    void expect_debts(instant now) {
        if (std::exchange(debts_, true)) return;
        sweep_by(next_sweep(now));
        shelf_.take_debts();
    }
    instant next_sweep(instant now) const { return pool_.next_sweep(now, debts_); }
    void sleep() {
        sweep_at_ = Pool::never;
        shelf_.raise(detail::sweeper_asleep);
    }

    Pool& pool_;
    typename Pool::shelf& shelf_;
    core::tally collected_;
    bool debts_ = false;        // what lies on the shelf may owe a reset
    std::size_t recalled_ = 0;  // leases from before the last recall that are still out
    date recalled_at_{};
    typename Pool::suspicion_mark suspicion_ =
        Pool::no_suspicion;   // the machine's, as far as known
    instant swept_at_{};      // the last sweep
    instant swept_before_{};  // and the one before
    instant sweep_at_ = Pool::never;
};

}  // namespace cenote::shell

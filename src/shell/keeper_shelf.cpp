// The keeper and the shelf: what goes onto it, what is brought back, and when. All under the lock.
#include <algorithm>
#include <utility>

#include "shell/keeper.hpp"

namespace cenote::shell {

using core::instant;
using detail::resource;

namespace {

std::uint64_t hits_of(const resource* r) { return r->seen->hits.load(std::memory_order_relaxed); }

/// Changes whenever the resource is taken from the shelf or put there.
std::uint64_t touches_of(const resource* r) {
    return hits_of(r) + r->seen->puts.load(std::memory_order_relaxed);
}

}  // namespace

/// Shuts the fast lane when somebody in line is owed the next resource, and opens it again.
void keeper::mind_the_lane(instant now) {
    if (std::exchange(suspicion_, machine_.suspect_at()) != machine_.suspect_at()) recall(now);
    if (machine_.owed_at() <= now && (shelf_.raised() & detail::somebody_waits) == 0) {
        shelf_.raise(detail::somebody_waits);  // first, then look what lies there
        collect_shelf(now);
    }
    if (machine_.owed_at() > now) shelf_.lower(detail::somebody_waits);
}

/// A hot resource from any cell, if the lane is open. What is in a cell while it is shut was laid
/// there too late, and whoever did so is about to take it out again.
resource* keeper::take_from_shelf(instant now, const borrower& who) {
    if (!lane_is_open() || machine_.owed_at() <= now) return nullptr;
    std::size_t first = detail::processor();
    for (std::size_t i = 0; i < shelf_.size(); ++i) {
        resource* r = shelf_.collect((first + i) % shelf_.size());
        if (r == nullptr) continue;
        if (machine_.look(r->slot).expires_at <= now) {
            bring_back(now, r);
            continue;
        }
        r->seen->hits.store(hits_of(r) + 1, std::memory_order_release);
        sign(*r->seen, now, who);
        note_lent(now, who);
        return r;
    }
    return nullptr;
}

void keeper::sign(detail::trace& seen, instant now, const borrower& who) {
    seen.site.store(who.site, std::memory_order_relaxed);
    seen.leased_at.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    seen.task.store(who.how.task, std::memory_order_relaxed);
    seen.leak_after.store(who.how.leak_after.count(), std::memory_order_relaxed);
    seen.holder.store(who.holder, std::memory_order_relaxed);
}

/// Makes a resource ready to be lent by the machine's grant.
void keeper::prepare(instant now, resource* r, const borrower& who) {
    std::uint64_t hits = hits_of(r);
    std::uint64_t left = settings_.max_uses - machine_.look(r->slot).uses;
    places_[r->slot].hits_known = hits;
    constexpr std::uint64_t never_used_up = forever;
    std::uint64_t limit = left > never_used_up - hits ? never_used_up : hits + left;
    r->seen->limit.store(limit, std::memory_order_relaxed);
    if (shelf_sweep_at_ != core::never)
        shelf_sweep_at_ = std::min(shelf_sweep_at_, machine_.look(r->slot).expires_at);
    sign(*r->seen, now, who);
    place& p = places_[r->slot];
    ++p.grants;
    p.hits = hits;
    p.puts = r->seen->puts.load(std::memory_order_relaxed);
    note_lent(now, who);
}

void keeper::give_to_machine(instant now, resource* r, core::condition how,
                             const std::optional<core::duration>& held) {
    forget_recalled(r);
    std::uint64_t hits = hits_of(r);
    std::uint64_t uses = hits - std::exchange(places_[r->slot].hits_known, hits);
    machine_.release(now, r->slot, how, uses, held, out_);
}

/// To the machine with a resource that came over the shelf and that nobody leases any more. It was
/// idle since some time after the last sweep, or since before it.
void keeper::bring_back(instant now, resource* r) {
    forget_recalled(r);
    ++collected_;
    std::uint64_t hits = hits_of(r);
    std::uint64_t uses = hits - std::exchange(places_[r->slot].hits_known, hits);
    instant idle_since = touches_of(r) != r->touches_swept ? now : swept_before_;
    machine_.bring_back(now, r->slot, uses, idle_since, out_);
}

/// What is leased now must not get past the machine when it comes back.
void keeper::recall(instant now) {
    recalled_ = 0;  // whatever is found on the shelf must not end an earlier recall, and this one
    shelf_.raise(detail::recalling);
    collect_shelf(now);
    recalled_at_ = now;
    recalled_ = machine_.count(core::slot_state::leased);
    if (recalled_ == 0) shelf_.lower(detail::recalling);
}

/// No timer is late after the system was suspended, and what is idle may be dead all the same.
void keeper::notice_suspension(instant now) {
    if (!can_probe_ || clock_ != nullptr || !suspension_.noticed(now, time_since_boot())) return;
    machine_.suspect_all(now, out_);
    suspicion_ = machine_.suspect_at();
    recall(now);
}

/// Whether it is worth a look at one more clock before somebody is served.
bool keeper::might_lend_suspects() const {
    bool on_shelf = shelf_sweep_at_ != core::never;
    return can_probe_ && (on_shelf || machine_.count(core::slot_state::idle) > 0);
}

/// The fast lane opens again when all leases from before the last recall are back.
void keeper::forget_recalled(const resource* r) {
    if (recalled_ == 0 || machine_.look(r->slot).leased_at > recalled_at_) return;
    if (--recalled_ == 0) shelf_.lower(detail::recalling);
}

/// Brings everything that lies on the shelf back to the machine.
void keeper::collect_shelf(instant now) {
    for (std::size_t i = 0; i < shelf_.size(); ++i)
        if (resource* r = shelf_.collect(i); r != nullptr) bring_back(now, r);
}

bool keeper::lane_is_open() const {
    return (shelf_.raised() & ~std::uint32_t{detail::sweeper_asleep}) == 0;
}

/// Lays a resource on the shelf, in place of the one that lies there: the last one used is lent
/// first. Returns what has no place there: null, the other one, or this one.
resource* keeper::lay_on_shelf(instant now, resource* r) {
    if (!lane_is_open()) return r;
    if (hits_of(r) >= r->seen->limit.load(std::memory_order_relaxed) ||
        machine_.look(r->slot).expires_at <= now)
        return r;
    std::size_t cell = detail::processor() % shelf_.size();
    resource* older = shelf_.collect(cell);
    if (!shelf_.restore(cell, r)) {
        if (older != nullptr) bring_back(now, older);
        return r;
    }
    if (shelf_sweep_at_ == core::never) {
        swept_at_ = swept_before_ = now;
        shelf_sweep_at_ = next_shelf_sweep(now);
        if (holder_interval_ < shelf_interval_) leaks_.look_by(core::after(now, holder_interval_));
        shelf_.lower(detail::sweeper_asleep);
    }
    return older;
}

/// Ends a lease by laying its resource on the shelf, if the lane is open to it.
bool keeper::keep_on_shelf(instant now, resource* r) {
    if (!lane_is_open()) return false;
    // Counted first: once it lies there it is no longer ours.
    auto leased_at = r->seen->leased_at.exchange(0, std::memory_order_relaxed);
    auto puts = r->seen->puts.load(std::memory_order_relaxed);
    r->seen->puts.store(puts + 1, std::memory_order_release);
    resource* over = lay_on_shelf(now, r);
    if (over == r) {
        r->seen->puts.store(puts, std::memory_order_release);
        r->seen->leased_at.store(leased_at, std::memory_order_relaxed);
        return false;
    }
    if (over != nullptr) bring_back(now, over);
    return true;
}

/// Brings back what was not touched since the last time, so that whatever lies on the shelf is hot.
/// With nothing left there it goes to sleep, and the next release wakes it.
void keeper::sweep_shelf(instant now) {
    note_holders(now);
    note_lane(now);
    bool hot = false;
    for (std::size_t i = 0; i < shelf_.size(); ++i) {
        resource* r = shelf_.collect(i);
        if (r == nullptr) continue;
        bool touched = touches_of(r) != r->touches_swept;
        r->seen->leased_at.store(0, std::memory_order_relaxed);
        // Onto a shut lane nothing is laid: whoever is owed it would not hear of it.
        bool stays = touched && shelf_.raised() == 0 && machine_.look(r->slot).expires_at > now;
        if (stays) r->touches_swept = touches_of(r);
        if (stays && shelf_.restore(i, r)) hot = true;
        else bring_back(now, r);
    }
    swept_before_ = std::exchange(swept_at_, now);
    shelf_sweep_at_ = next_shelf_sweep(now);
    if (hot) return;
    shelf_sweep_at_ = core::never;
    shelf_.raise(detail::sweeper_asleep);
    // Rule 1 of the shelf: whoever raises attention collects.
    collect_shelf(now);
    note_holders(now);  // who took something meanwhile
}

/// In time for what will be too old before the next regular one.
instant keeper::next_shelf_sweep(instant now) const {
    instant at = core::after(now, shelf_interval_);
    for (core::slot_id id = 0; id < machine_.places(); ++id) {
        const core::slot& s = machine_.look(id);
        if (s.state == core::slot_state::leased && s.expires_at > now)
            at = std::min(at, s.expires_at);
    }
    return at;
}

}  // namespace cenote::shell

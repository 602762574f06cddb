// Gatherers: callers that want several resources at once, or none (acquire_many).
#include <algorithm>

#include "sim/world.hpp"

namespace cenote::sim {

namespace {

/// Distinguishes a gatherer's cookie from a borrower's.
constexpr std::uint64_t gatherers_mark = std::uint64_t{1} << 63;

}  // namespace

/// `how`: how many, and how long it waits.
bool world::gather(gatherer& who, std::uint32_t how) {
    if (who.waits || !who.slots.empty()) return false;
    std::size_t several = 2 + how % max_;  // sometimes one more than there can be
    who.count = static_cast<std::uint32_t>(several);
    who.deadline = how % 5 == 0 ? core::never : now_ + std::chrono::milliseconds{how};
    who.arrived = now_;
    who.came = ++begun_;
    auto index = static_cast<std::size_t>(&who - gatherers_.data());
    who.cookie = gatherers_mark | (++asks_ * gatherers_.size() + index);
    core::request r{.deadline = who.deadline, .cookie = who.cookie, .count = who.count};
    who.waits = true;
    core::answer mine = machine_.acquire(now_, r, mine_);
    core::answer theirs = model_.acquire(now_, r);
    compare_answers(mine, theirs);
    if (spectator_ != nullptr) {
        who.waits = false;  // place_in_line must not count it
        auto turn_of_it = who.arrived + plan_.settings.head_start;
        note(actor_of(who), mine, place_in_line(turn_of_it, who.came), who.deadline);
        who.waits = true;
    }
    who.waiter = mine.waiter;
    bool too_many = who.count > max_;
    require(!too_many || mine.what == core::answer::kind::refused, "more than max are refused");
    if (mine.what != core::answer::kind::refused) return true;
    ++seen_.refusals;
    ++ended_;
    who.waits = false;
    return true;
}

bool world::call_off(gatherer& who) {
    if (!who.waits) return false;
    ++seen_.cancels;
    require(machine_.cancel(now_, who.waiter, mine_), "a waiter can cancel");
    require(model_.cancel(now_, who.cookie), "a cancel counts as in the model");
    return true;
}

bool world::scatter(gatherer& who) {
    if (who.slots.empty()) return false;
    scattering_ = true;
    while (!who.slots.empty()) {
        core::slot_id slot = who.slots.back();
        who.slots.pop_back();
        trials_well_ += machine_.look(slot).trial;
        // By thread 1, for which nothing is set aside: a gatherer has no turn.
        machine_.release(now_, slot, core::condition::clean, 0, core::duration{}, mine_, 1);
        model_.release(now_, slot, core::condition::clean, 0, 1);
        places_[slot].given_back_by = 1;
        places_[slot].owes = false;
        absorb();
    }
    scattering_ = false;
    return true;
}

void world::gathered(gatherer& who, core::slot_id slot) {
    const place& p = places_[slot];
    require(who.waits || who.slots.size() < who.count, "a gatherer gets what it wants, once");
    require(!closed_ && !paused_, "a closed or paused pool lends nothing");
    require(circuit_.to != breaker_state::inactive, "an inactive pool lends nothing");
    require(p.exists && !p.dirty && !p.given_up, "only a good resource is lent");
    require(!is_gatherers(slot), "one borrower at a time");
    for (const borrower& b : borrowers_) require(b.slot != slot, "one borrower at a time");
    if (who.waits) ++ended_;
    else ++asks_;  // the machine counts each lease as an acquire
    who.waits = false;
    who.slots.push_back(slot);
    ++seen_.grants;
}

void world::sent_away(gatherer& who, const core::action& a) {
    require(who.waits, "only a waiter is answered");
    require(a.error != errc::deadlock || who.count > max_,
            "only more than max is refused as a deadlock");
    require(a.error != errc::timed_out || now_ >= who.deadline, "no timeout comes early");
    who.waits = false;
    ++ended_;
    ++seen_.refusals;
}

/// Between two steps a gatherer has all or nothing.
void world::look_at_gatherers() const {
    if (scattering_) return;
    for (const gatherer& g : gatherers_) {
        require(!g.waits || g.slots.empty(), "a waiting gatherer has nothing");
        require(g.slots.empty() || g.slots.size() == g.count, "all or nothing");
    }
}

bool world::is_gatherers(core::slot_id slot) const {
    return std::any_of(gatherers_.begin(), gatherers_.end(), [&](const gatherer& g) {
        return std::find(g.slots.begin(), g.slots.end(), slot) != g.slots.end();
    });
}

world::gatherer* world::gatherer_named(std::uint64_t cookie) {
    if ((cookie & gatherers_mark) == 0) return nullptr;
    gatherer& who = gatherers_[(cookie & ~gatherers_mark) % gatherers_.size()];
    require(who.cookie == cookie, "only a waiter is answered");
    return &who;
}

}  // namespace cenote::sim

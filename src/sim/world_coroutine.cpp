// Borrowers that are coroutines, and what the keeper does for them (shell/keeper_wait.cpp).
//
// A thread that is granted something has it. A coroutine has it when its executor gets round to
// resuming it; until then its lease can be taken by nobody, canceling comes too late, and if the
// coroutine is destroyed the lease goes back. If there is a before_acquire, some thread has to look
// at the resource first, and that may take a while, too.
#include "sim/world.hpp"

namespace cenote::sim {

bool world::is_coroutine(const borrower& who) const { return index_of(who) < plan_.coroutines; }

/// It was stopped before it came, so nobody has to tell it.
void world::leave_at_once(borrower& who) {
    absorb();
    if (who.what != doing::waiting) return;  // refused as it came
    who.withdrawn = true;
    take_out(who);
}

/// What is granted at once reaches a coroutine that has not been suspended yet. What a thread that
/// looks at unfit ones gets in their place, it looks at as well.
void world::granted(borrower& who, bool from_line) {
    if (who.what == doing::looked_at) return;
    bool goes_on = !is_coroutine(who) || (!from_line && !plan_.looks);
    if (goes_on) hold(who);
    else if (plan_.looks) who.what = doing::admitting;
    else tell(who);
}

void world::refused(borrower& who) {
    ++seen_.refusals;
    bool told = is_suspended(who) && is_coroutine(who);
    if (told && !who.withdrawn) tell(who);
    else end(who);
}

/// The outcome is there. The executor will resume it, sooner or later.
void world::tell(borrower& who) {
    require(!who.withdrawn, "nobody is told after it has withdrawn");
    require(who.what == doing::waiting || who.what == doing::looked_at, "everybody is told once");
    who.what = doing::told;
}

void world::resume(borrower& who) {
    if (who.slot == core::no_slot) end(who);
    else hold(who);
}

void world::destroy(borrower& who) {
    ++seen_.destroyed;
    who.withdrawn = true;
    if (take_out(who)) return;
    // While its resource is being looked at, the frame has to stay.
    if (who.what != doing::looked_at) give_back(who);
}

/// It goes without having used what it was granted, if it was.
void world::give_back(borrower& who) {
    core::slot_id slot = who.slot;
    end(who);
    if (slot == core::no_slot) return;
    core::condition how =
        places_[slot].owes ? core::condition::owing_unused : core::condition::unused;
    places_[slot].owes_since = now_;
    machine_.release(now_, slot, how, 0, core::duration{}, mine_);
    model_.release(now_, slot, how, 0, theirs_);
}

/// before_acquire has spoken. If it said no, the borrower goes back to its place, unless it wants
/// no more. False: the machine was not asked.
bool world::admit(borrower& who, bool fit) {
    who.what = doing::looked_at;
    places_[who.slot].fit = fit;
    if (fit && who.withdrawn) return give_back(who), true;
    if (fit) return tell(who), false;
    ++seen_.faults;
    send_back(who);
    if (who.withdrawn) end(who);
    else if (who.stopped) tell(who);
    else ask(who);
    return true;
}

// Crowds.

/// Everybody from the first on who does nothing acquires. Not all are equally patient.
bool world::crowd(std::uint32_t first, std::uint32_t patience) {
    bool asked = false;
    for (std::size_t i = first % borrowers_.size(); i < borrowers_.size(); ++i) {
        if (!fits(borrowers_[i], decision::kind::acquire)) continue;
        auto own = static_cast<std::uint32_t>(patience * (i + 1) % 601);
        acquire(borrowers_[i], patience == 0 ? 0 : 1 + own, false);
        absorb();
        asked = true;
    }
    return asked;
}

/// Everybody from the first on whose acquire has not ended is canceled, or destroyed.
bool world::storm(std::uint32_t first, bool destroys) {
    bool asked = false;
    for (std::size_t i = first % borrowers_.size(); i < borrowers_.size(); ++i) {
        borrower& who = borrowers_[i];
        if (!is_suspended(who)) continue;
        if (destroys && fits(who, decision::kind::destroy)) destroy(who);
        else cancel(who);
        absorb();
        asked = true;
    }
    return asked;
}

}  // namespace cenote::sim

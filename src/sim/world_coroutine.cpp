// Borrowers that are coroutines, and what the keeper does for them (src/shell/acquire_async.cpp).
//
// A coroutine uses what it was granted only when its executor resumes it. Until then no other
// borrower gets the resource, a cancel comes too late, and if the coroutine is destroyed the lease
// ends unused. If there is a before_acquire, a thread has to look at the resource first.
#include "sim/world.hpp"

namespace cenote::sim {

bool world::is_coroutine(const borrower& who) const { return index_of(who) < plan_.coroutines; }

/// Its stop token was triggered before the acquire: the outcome is known without an answer.
void world::leave_at_once(borrower& who) {
    absorb();
    if (who.what != doing::waiting) return;  // refused at once
    who.withdrawn = true;
    take_out(who);
}

/// A coroutine that is granted something at once is not suspended. A thread that has found one
/// resource unfit also looks at the next one.
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

/// The outcome is known, and the executor will resume the coroutine.
void world::tell(borrower& who) {
    require(!who.withdrawn, "a destroyed coroutine is told nothing");
    require(who.what == doing::waiting || who.what == doing::looked_at, "an outcome is told once");
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

/// A lease that was granted ends unused.
void world::give_back(borrower& who) {
    core::slot_id slot = who.slot;
    end(who);
    if (slot == core::no_slot) return;
    core::condition how =
        places_[slot].owes ? core::condition::owing_unused : core::condition::unused;
    places_[slot].owes_since = now_;
    machine_.release(now_, slot, how, 0, core::duration{}, mine_);
    model_.release(now_, slot, how, 0);
}

/// before_acquire has answered. After a no the borrower goes back to its place, unless it was
/// canceled or destroyed. False: the machine was not called.
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

/// Every borrower from the first on that does nothing acquires. They are not equally patient.
bool world::crowd(std::uint32_t first, std::uint32_t patience) {
    bool called = false;
    for (std::size_t i = first % borrowers_.size(); i < borrowers_.size(); ++i) {
        if (!fits(borrowers_[i], decision::kind::acquire)) continue;
        auto own = static_cast<std::uint32_t>(patience * (i + 1) % 601);
        acquire(borrowers_[i], patience == 0 ? 0 : 1 + own, false);
        absorb();
        called = true;
    }
    return called;
}

/// Every borrower from the first on whose acquire has not ended is canceled or destroyed.
bool world::storm(std::uint32_t first, bool destroys) {
    bool called = false;
    for (std::size_t i = first % borrowers_.size(); i < borrowers_.size(); ++i) {
        borrower& who = borrowers_[i];
        if (!is_suspended(who)) continue;
        if (destroys && fits(who, decision::kind::destroy)) destroy(who);
        else cancel(who);
        absorb();
        called = true;
    }
    return called;
}

}  // namespace cenote::sim

// Turns: a thread that releases a resource and acquires again at once gets the resource back, four
// times, or for 100 µs if that is more often, before the head of the line gets it. The pool then
// pays for a thread switch once per turn instead of once per lease.
//
// Between the two leases the resource is idle and set aside: no other borrower gets it. It goes to
// the head of the line after a moment, or at once if the new head does not grant turns.
#include <algorithm>

#include "core/ensure.hpp"
#include "core/machine.hpp"

namespace cenote::core {

/// Whether the head waits for other threads to end their turn: only a thread that wants one
/// resource does.
bool machine::head_grants_turns() const {
    if (can_.turns == 0 || settings_.fairness != fairness::turns) return false;
    if (closed_ || paused_ || !circuit_.flows() || line_.empty()) return false;
    const waiter& head = line_.first();
    return head.is_thread && head.rank != priority::reserved;
}

/// Whether the resource of a clean or owing lease is to be set aside, if it is fit.
bool machine::turn_goes_on(instant now, const slot& s, std::uint64_t thread) const {
    if (thread == 0 || !s.by_thread || !head_grants_turns()) return false;
    bool ended = s.turns >= can_.turns && now >= after(s.turn_began, shortest_turn);
    return s.rank <= line_.first().rank && !ended && comebacks_.are_likely(lends_);
}

bool machine::set_aside(instant now, slot_id id, std::uint64_t uses,
                        const std::optional<duration>& held, bool owes, std::uint64_t thread) {
    if (!is_express(now) || line_.empty()) return false;
    slot& s = slots_[id];
    if (!turn_goes_on(now, s, thread)) return false;
    if (!comes_back_fit(now, s, uses) || (owes && !defers())) return false;
    ensure(s.state == slot_state::leased, "a slot that is set aside was leased");
    ++released_;
    s.owes = owes;
    s.uses += uses;
    s.idle_since = now;
    circuit_.count_success(now);
    if (held) hold_.record(*held);
    put_aside(now, id, thread);
    return true;
}

void machine::put_aside(instant now, slot_id id, std::uint64_t thread) {
    ++set_asides_;
    slots_.set_aside(id);
    slots_[id].holder = thread;
    others_at_ = others_due();
    express_until_ = std::min(express_until_, others_at_);
    note_idle(now, slots_[id]);
}

bool machine::claim(instant now, std::uint64_t thread, priority rank, slot_id& id) {
    if (slots_.aside() == 0 || !is_express(now)) return false;
    id = find_own(now, thread, rank);
    if (id == no_slot) return false;
    slot& s = slots_[id];
    go_on(s, rank);
    slots_.enter(id, slot_state::leased);
    ++lent_now_;
    ++s.uses;
    s.leased_at = now;
    s.lent = ++lends_;
    s.holder = 0;
    others_at_ = others_due();
    return true;
}

/// claim() without the guard of express.
slot_id machine::lend_own(instant now, const request& who, actions& out) {
    slot_id own = who.count == 1 ? find_own(now, who.thread, who.rank) : no_slot;
    if (own == no_slot) return no_slot;
    go_on(slots_[own], who.rank);
    lend(now, own, now, false, out);
    settle(now, out);
    return own;
}

/// The resource that is set aside for this thread: the last one it released.
slot_id machine::find_own(instant now, std::uint64_t thread, priority rank) const {
    if (slots_.aside() == 0 || line_.empty() || thread == 0) return no_slot;
    if (rank > line_.first().rank) return no_slot;
    slot_id id = slots_.newest(idle_kind::aside);
    while (id != no_slot) {
        const slot& s = slots_[id];
        if (s.holder == thread && may_stay_aside(now, s)) return id;
        id = s.previous;
    }
    return no_slot;
}

bool machine::may_stay_aside(instant now, const slot& s) const {
    return s.expires_at > now && !needs_probe(s, now) && now < aside_until(s);
}

/// Continues the turn with one more lease.
void machine::go_on(slot& s, priority rank) {
    ++s.turns;
    s.rank = rank;
    comebacks_.came();
}

/// Makes resources fresh whose time aside is over, so that the head can get them.
void machine::look_at_aside(instant now) {
    if (!head_grants_turns()) return let_go_of_aside();
    for (slot_id id = slots_.oldest(idle_kind::aside); id != no_slot;) {
        slot_id next = slots_[id].next;
        bool missed = aside_until(slots_[id]) <= now;
        if (missed) comebacks_.missed(lends_);
        if (!may_stay_aside(now, slots_[id])) slots_.move(id, idle_kind::fresh);
        id = next;
    }
}

void machine::let_go_of_aside() {
    while (slots_.aside() > 0) slots_.move(slots_.oldest(idle_kind::aside), idle_kind::fresh);
}

}  // namespace cenote::core

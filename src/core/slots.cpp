// The slots of a pool: the parts that are not on the hand-over path.
#include "core/slots.hpp"

#include "core/ensure.hpp"

namespace cenote::core {

slots::slots(std::size_t max) {
    make_places(max);
    resize(max);
}

void slots::make_places(std::size_t count) {
    std::size_t before = places();
    if (count <= before) return;
    table_.reserve(count);
    vacant_.reserve(count);
    table_.resize(count);
    for (std::size_t i = count; i-- > before;) vacant_.push_back(static_cast<slot_id>(i));
    counts_[static_cast<std::size_t>(slot_state::vacant)].add(count - before);
}

void slots::resize(std::size_t max) {
    ensure(max <= places(), "there are as many places as there may be resources");
    max_.set(max);
}

slot_id slots::vacant() const {
    ensure(!vacant_.empty(), "there is a vacant slot");
    return vacant_.back();
}

void slots::enter(slot_id id, slot_state next) {
    slot& s = table_[id];
    ensure(s.state != next, "a slot changes its state");
    if (s.state == slot_state::idle) unlink(id);
    if (s.state == slot_state::vacant) {
        ensure(vacant_.back() == id, "the slot vacated last is taken first");
        vacant_.pop_back();
    }
    if (next == slot_state::vacant) vacant_.push_back(id);  // reserved
    --counts_[static_cast<std::size_t>(s.state)];
    ++counts_[static_cast<std::size_t>(next)];
    s.state = next;
}

void slots::make_fresh(slot_id id) {
    enter(id, slot_state::idle);
    table_[id].idle = idle_kind::fresh;
    link(list_of(table_[id]), last_used_before(table_[id]), id);
}

void slots::set_aside(slot_id id) {
    enter(id, slot_state::idle);
    table_[id].idle = idle_kind::aside;
    link(list_of(table_[id]), newest(idle_kind::aside), id);
    ++aside_;
}

/// A released resource belongs at the newest end. Only one that was probed or kept while others
/// were used has to search for its place.
slot_id slots::last_used_before(const slot& s) const {
    slot_id behind = newest(idle_kind::fresh);
    while (behind != no_slot && table_[behind].idle_since > s.idle_since)
        behind = table_[behind].previous;
    return behind;
}

void slots::move(slot_id id, idle_kind kind) {
    slot& s = table_[id];
    ensure(s.state == slot_state::idle && s.idle != kind, "only an idle slot moves between lists");
    bool expiring = s.expiring;
    unlink(id);
    s.idle = kind;
    link(list_of(s), kind == idle_kind::fresh ? last_used_before(s) : newest(kind), id);
    doomed_ += kind == idle_kind::doomed;
    kept_ += kind == idle_kind::kept;
    if (kind == idle_kind::stale && expiring) mark_expiring(id);
}

void slots::mark_expiring(slot_id id) {
    slot& s = table_[id];
    ensure(s.state == slot_state::idle, "only an idle slot waits for its replacement");
    expiring_ += !s.expiring;
    s.expiring = true;
}

void slots::link(list& where, slot_id behind, slot_id id) {
    slot& s = table_[id];
    s.previous = behind;
    s.next = behind == no_slot ? where.head : table_[behind].next;
    (behind == no_slot ? where.head : table_[behind].next) = id;
    (s.next == no_slot ? where.tail : table_[s.next].previous) = id;
}

void slots::unlink(slot_id id) {
    slot& s = table_[id];
    list& where = list_of(s);
    (s.previous == no_slot ? where.head : table_[s.previous].next) = s.next;
    (s.next == no_slot ? where.tail : table_[s.next].previous) = s.previous;
    doomed_ -= s.idle == idle_kind::doomed;
    kept_ -= s.idle == idle_kind::kept;
    if (s.idle == idle_kind::aside) --aside_;
    expiring_ -= s.expiring;
    s.expiring = false;
}

std::size_t slots::check_list(idle_kind kind) const {
    std::size_t found = 0;
    slot_id last = no_slot;
    for (slot_id id = oldest(kind); id != no_slot; id = table_[id].next) {
        const slot& s = table_[id];
        ensure(s.state == slot_state::idle, "the idle lists hold idle slots");
        ensure(s.idle == kind, "an idle slot knows its list");
        ensure(s.previous == last, "the idle lists are linked both ways");
        bool in_order = kind == idle_kind::fresh || kind == idle_kind::aside;
        ensure(!in_order || last == no_slot || table_[last].idle_since <= s.idle_since,
               "the fresh are in the order of their last use, and so are those set aside");
        last = id;
        ++found;
    }
    ensure(newest(kind) == last, "an idle list ends at its tail");
    return found;
}

void slots::check() const {
    std::array<std::size_t, slot_state_count> recount{};
    std::size_t expiring = 0;
    for (const slot& s : table_) {
        ++recount[static_cast<std::size_t>(s.state)];
        expiring += s.expiring;
    }
    for (std::size_t i = 0; i < slot_state_count; ++i)
        ensure(recount[i] == counts_[i].get(), "the counts equal a recount of the slots");
    ensure(expiring == expiring_, "expiring slots are counted");
    ensure(vacant_.size() == count(slot_state::vacant), "every vacant slot can be found");
    ensure(check_list(idle_kind::doomed) == doomed_, "doomed slots are counted");
    ensure(check_list(idle_kind::kept) == kept_, "kept slots are counted");
    ensure(check_list(idle_kind::aside) == aside(), "slots that are set aside are counted");
    std::size_t listed =
        check_list(idle_kind::fresh) + check_list(idle_kind::stale) + doomed_ + kept_ + aside();
    ensure(listed == count(slot_state::idle), "every idle slot is in exactly one list");
}

}  // namespace cenote::core

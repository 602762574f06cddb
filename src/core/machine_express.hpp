// Express requests of the machine: those that move only the line, or only the idle list.
//
// They are in a header so that the keeper can inline them: every hand-over makes two of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/ensure.hpp"
#include "core/machine.hpp"

namespace cenote::core {

[[gnu::always_inline]] inline bool machine::queue_up(instant now, waiter& who, waiter_id& id) {
    if (who.deadline <= now) return false;
    // The first waiter changes what is due.
    if (!is_express(now) || line_.empty() || !line_.has_room()) return false;
    if (line_.size() >= settings_.line_max) return false;
    if (slots_.aside() > 0 && !stays_behind_head(who)) return false;
    if (who.ticket == 0) who.ticket = ++last_ticket_;
    id = line_.join(who);
    ++acquires_;
    return true;
}

[[gnu::always_inline]] inline bool machine::pass_on(instant now, slot_id id, std::uint64_t uses,
                                                    const std::optional<duration>& held, bool owes,
                                                    std::uint64_t& to) {
    // The last waiter leaves through settle(): without a line other things are due.
    if (!is_express(now) || line_.size() < 2) return false;
    if (line_.first().count > 1) return false;
    // A resource that is set aside may be owed to the next head.
    if (slots_.aside() > 0) return false;
    slot& s = slots_[id];
    if (!comes_back_fit(now, s, uses) || (owes && !defers())) return false;
    const waiter& w = line_.leave_first();
    to = w.cookie;
    ++passed_on_;
    s.owes = owes;
    s.uses += uses + 1;
    s.idle_since = now;
    s.leased_at = now;
    s.lent = ++lends_;
    s.holder = 0;
    releases_.note(now);
    circuit_.count_success(now);
    note_idle(now, s);
    wait_.record(now - w.arrived);
    begin_turn(now, s, w.is_thread, w.rank);
    if (held) hold_.record(*held);
    return true;
}

[[gnu::always_inline]] inline bool machine::lend_now(instant now, slot_id& id) {
    if (!is_calm(now)) return false;
    if (count(slot_state::idle) <= lend_floor_) return false;
    slot_id next = settings_.order == order::lifo ? slots_.newest(idle_kind::fresh)
                                                  : slots_.oldest(idle_kind::fresh);
    if (next == no_slot) return false;
    slot& s = slots_[next];
    // A fresh slot is of the present generation and has uses left.
    if (s.expires_at <= now || needs_probe(s, now)) return false;
    slots_.lend(next);
    ++lent_now_;
    ++s.uses;
    s.leased_at = now;
    s.lent = ++lends_;
    s.holder = 0;
    stay_calm(now);
    id = next;
    return true;
}

[[gnu::always_inline]] inline bool machine::put_back(instant now, slot_id id, std::uint64_t uses,
                                                     const std::optional<duration>& held,
                                                     bool owes) {
    if (!is_calm(now)) return false;
    slot& s = slots_[id];
    ensure(s.state == slot_state::leased, "a slot that is put back was leased");
    if (!comes_back_fit(now, s, uses) || (owes && !defers())) return false;
    ++released_;
    s.owes = owes;
    s.uses += uses;
    s.idle_since = now;
    releases_.note(now);
    circuit_.count_success(now);
    if (held) hold_.record(*held);
    slots_.take_back(id);
    if (is_news(s)) [[unlikely]] {
        note_news(now, s);
        rest_at_ = std::min(rest_at_, idle_wake_at());
    }
    stay_calm(now);
    return true;
}

}  // namespace cenote::core

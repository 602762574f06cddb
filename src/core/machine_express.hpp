// The machine's requests that need no look at the whole: what only moves the line, or only the
// idle.
//
// In a header, because every hand-over takes two of them: the keeper's own ways in have them
// inlined.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/ensure.hpp"
#include "core/fault.hpp"
#include "core/machine.hpp"

namespace cenote::core {

[[gnu::always_inline]] inline bool machine::queue_up(instant now, waiter& who, waiter_id& id) {
    bool waits = who.deadline > now || planted(fault::express_lets_everybody_wait);
    // The first one in line changes what is due.
    if (!waits || !is_express(now) || line_.empty() || !line_.has_room()) return false;
    if (line_.size() >= settings_.line_max && !planted(fault::express_overfills_the_line))
        return false;
    if (slots_.aside() > 0 && !stays_behind_head(who)) return false;
    ++acquires_;
    if (who.ticket == 0) who.ticket = ++last_ticket_;
    id = line_.join(who);
    return true;
}

[[gnu::always_inline]] inline bool machine::pass_on(instant now, slot_id id, std::uint64_t uses,
                                                    const std::optional<duration>& held, bool owes,
                                                    std::uint64_t& to) {
    // The last one in line leaves through settle(): without a line other things are due.
    std::size_t enough = planted(fault::express_serves_the_last_in_line) ? 1 : 2;
    if (!is_express(now) || line_.size() < enough) return false;
    if (line_.first().count > 1 && !planted(fault::express_gives_one_to_many)) return false;
    // The next head may have a right to what is set aside.
    if (slots_.aside() > 0 && !planted(fault::express_passes_by_the_set_aside)) return false;
    slot& s = slots_[id];
    if (!comes_back_fit(now, s, uses) || (owes && !defers())) return false;
    ++passed_on_;
    s.owes = owes;
    s.uses += uses + 1;
    s.idle_since = now;
    s.leased_at = now;
    s.lent = ++lends_;
    s.holder = 0;
    releases_.note(now);
    circuit_.count_success(now);
    if (!planted(fault::express_forgets_what_becomes_idle)) note_idle(now, s);
    const waiter& w = line_.leave_first();
    to = w.cookie;
    wait_.record(now - w.arrived);
    if (held) hold_.record(*held);
    return true;
}

[[gnu::always_inline]] inline bool machine::lend_now(instant now, slot_id& id) {
    if (!is_calm(now)) return false;
    if (count(slot_state::idle) <= lend_floor_ && !planted(fault::calm_lends_the_spares))
        return false;
    slot_id next = settings_.order == order::lifo ? slots_.newest(idle_kind::fresh)
                                                  : slots_.oldest(idle_kind::fresh);
    if (next == no_slot) return false;
    slot& s = slots_[next];
    // What is idle and fresh is neither old nor used up.
    if (s.expires_at <= now && !planted(fault::calm_lends_the_expired)) return false;
    if (needs_probe(s, now) && !planted(fault::calm_lends_the_unproven)) return false;
    slots_.lend(next);
    ++lent_now_;
    if (!planted(fault::uses_not_counted)) ++s.uses;
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
    ensure(s.state == slot_state::leased, "what is put back was leased");
    if (!comes_back_fit(now, s, uses) || (owes && !defers())) return false;
    ++released_;
    s.owes = (owes && !planted(fault::calm_forgets_the_debt)) ||
             (s.owes && planted(fault::use_leaves_the_debt));
    s.uses += uses;
    s.idle_since = now;
    releases_.note(now);
    if (!planted(fault::accepted_release_is_no_news)) circuit_.count_success(now);
    if (held) hold_.record(*held);
    slots_.take_back(id);
    if (is_news(s)) [[unlikely]] {
        note_news(now, s);
        if (!planted(fault::calm_forgets_what_becomes_due))
            rest_at_ = std::min(rest_at_, idle_wake_at());
    }
    stay_calm(now);
    return true;
}

}  // namespace cenote::core

#!/usr/bin/env python3
# The planted faults: small bugs that the simulator must find, each as a change to the sources.
"""usage: faults.py ROOT OUT     (the repository; where the changed sources are written)

Copies src/core, src/sim and tests/sim/small_world.cpp to OUT with every fault in them, each
switched at run time (switch.hpp). The faults of the keeper are in the simulated worlds, which do
what the keeper does. A text that does not fit its source ends the build with the fault's name.
"""

import sys
from pathlib import Path

import schema

CIRCUIT = "src/core/circuit.hpp"
COMEBACKS = "src/core/comebacks.hpp"
CONTROL = "src/core/machine_control.cpp"
COROUTINE = "src/sim/world_coroutine.cpp"
DEADLINES = "src/core/deadlines.cpp"
EXPRESS = "src/core/machine_express.hpp"
HEADER = "src/core/machine.hpp"
LEAKS = "src/core/leaks.hpp"
LINE = "src/core/line.cpp"
LINE_HEADER = "src/core/line.hpp"
MACHINE = "src/core/machine.cpp"
PACER = "src/core/pacer.cpp"
SETTLE = "src/core/machine_settle.cpp"
SHEDDER = "src/core/shedder.hpp"
SMALL_WORLD = "tests/sim/small_world.cpp"
TURNS = "src/core/machine_turns.cpp"
WORLD = "src/sim/world.cpp"

# (name, what the reader must know, (file, text with its «part», replacement of the part) …)
FAULTS = (
    # A place that becomes free serves the line.
    ("discard_serves_no_waiter", "A discard serves no waiter.",
     (MACHINE, "take_back(now, id, how, out); «» settle(now, out);",
      "if (how == condition::discard) return;")),
    ("rejected_release_serves_no_waiter", "A rejected release serves no waiter.",
     (MACHINE, "take_back(now, id, how, out); «» settle(now, out);",
      "if (how == condition::rejected) return;")),
    ("failed_open_serves_no_waiter", "A failed open frees its slot, and no other open begins.",
     (MACHINE, "fail_open(now, id, how == outcome::failed_finally, out); «» } else {",
      "return true;")),
    ("failed_open_keeps_its_slot", "A failed open is closed like a resource.",
     (MACHINE, "tried_ = false; «» vacate(id, out);", "return begin_close(now, id, out);")),
    ("detach_keeps_the_slot", "A detached resource occupies its slot.",
     (MACHINE, "report(event_kind::detached, s.resource, out); «vacate(id, out);»", "")),

    # max and opening_max.
    ("opens_counted_only_when_done", "Opens in flight do not count as coming.",
     (SETTLE, "supply machine::present_supply() const {«»",
      "return {.max = slots_.max(), .total = slots_.total() - count(slot_state::opening),"
      " .idle = available(), .leased = count(slot_state::leased), .returning = returning(),"
      " .wanted = line_.wanted(), .strays = strays_.size()};")),
    ("opens_ignore_closing_ones", "A full pool opens one more.",
     (PACER, "if («s.total >= s.max») {", "false"),
     (PACER, "std::size_t most = «room(s)»;", "1")),
    ("warm_up_ignores_opening_max", "A missing minimum is opened all at once.",
     (PACER, "std::size_t most = «room(s)»;",
      "lack.of_minimum > 0 ? minus(s.max, s.total) : room(s)")),
    ("spike_opens_for_every_waiter", "Opens do not start one at a time while resources circulate.",
     (PACER, "if («alone && well()») return opening_max_;", "true")),
    ("vacant_before_close_finished", "A slot is free as soon as its close begins.",
     (MACHINE, "begin(now, id, slot_state::closing, verb::close, out);«»",
      "calls_.remove(id); vacate(id, out);")),
    ("open_rate_ignored", "Opens need no token.",
     (PACER, "if («token_every_ == duration{}») return any;", "true")),
    ("no_token_ever_comes", "An open that waits for a token has no timer.",
     (PACER, "«retry_at_ = next_token();»", "")),
    ("hanging_opens_block_the_rest", "No scout is sent when opens hang.",
     (PACER, "if («!hangs || !possible») return never;", "true")),
    ("strays_take_no_room", "What made way takes up no room.",
     (SETTLE, "slots_.total() + «strays_.size()»", "std::size_t{0}")),
    ("oldest_open_makes_way", "The oldest open makes way instead of the youngest.",
     (SETTLE, "youngest == no_slot || «s.call > slots_[youngest].call»",
      "s.call < slots_[youngest].call")),

    # The line.
    ("newcomer_overtakes_the_line", "A new waiter gets the ticket of the head.",
     (MACHINE, "«» waiter w = waiter_of(now, who); w.ticket = ticket;",
      "if (!line_.empty()) ticket = line_.first().ticket;")),
    ("caller_that_cannot_wait_waits", "A caller that cannot wait is made to wait.",
     (MACHINE, "if («who.cannot_wait») { tried_ = true;", "false")),
    ("line_is_last_in_first_out", "The waiter that came last is served first.",
     (LINE_HEADER, "bool last = «q.tail != none && get(q.tail).who.ticket < who.ticket»;",
      "false"),
     (LINE, "«» n.previous = behind;", "behind = none;"),
     (LINE, "if («head_ == none || (q.head == index && before(index, head_))»)", "true")),
    ("priority_does_not_count", "A waiter of higher priority does not become the head.",
     (LINE, "if («head_ == none || (q.head == index && before(index, head_))»)", "head_ == none")),
    ("failed_probe_costs_the_place", "After a failed probe the head goes to the end of the line.",
     (MACHINE, "«» if (++dead_in_row_ >= 2)",
      "if (!line_.empty()) { waiter w = line_.leave(line_.head()); w.ticket = ++last_ticket_;"
      " line_.join(w); }")),
    ("failed_probe_restarts_the_deadline", "After a failed probe the head's timeout begins again.",
     (MACHINE, "«» if (++dead_in_row_ >= 2)",
      "if (!line_.empty()) { waiter w = line_.leave(line_.head());"
      " if (w.deadline != never) w.deadline = now + (w.deadline - w.arrived); line_.join(w); }")),
    ("deadline_one_late", "A waiter whose deadline is now is not refused.",
     (SETTLE, "while («line_.earliest() <= now») refuse(line_.first_due()",
      "line_.earliest() < now")),
    ("bounded_never_hands_over", "A bypassed head has no timer.",
     (SETTLE, "return «slots_.oldest(idle_kind::fresh) != no_slot» ? std::min(at, owed_at())",
      "false")),
    ("removed_deadline_breaks_the_heap", "What fills the gap of a removed deadline does not rise.",
     (DEADLINES, "«sift_up(position);» sift_down(positions_[moved.entry]);",
      "put(position, moved);")),
    ("equal_deadlines_ignore_tickets", "Of equal deadlines the first found is refused first.",
     (LINE, "return «x.deadline != y.deadline ? x.deadline < y.deadline : x.ticket < y.ticket»;",
      "x.deadline < y.deadline")),
    ("deadlines_are_always_in_order", "A deadline that falls is not put on the heap.",
     (LINE, "if («at < q.latest» || n.next != none) {", "false")),
    ("old_places_are_in_order", "A deadline at an old place is not put on the heap.",
     (LINE, "if (at < q.latest || «n.next != none») {", "false")),
    ("reserved_meets_a_full_line", "line_max refuses a waiter of priority reserved.",
     (MACHINE, "bool has_a_place = who.again || «who.rank == priority::reserved»;", "false")),
    ("no_queue_joins_the_line", "A caller that does not queue waits for leases.",
     (MACHINE, "bool machine::must_queue(std::size_t count) const {«»", "return false;")),
    ("no_queue_overlooks_the_line", "What is free counts twice: for the line and a newcomer.",
     (MACHINE, "slots_.count(slot_state::leased) + «line_.wanted()» + count",
      "std::size_t{0}")),

    # Early refusal when the line is late.
    ("late_line_sheds_none", "A late line refuses no waiter early.",
     (SHEDDER, "return «late_» ? after(after(arrived, target_), target_)", "false")),
    ("line_stays_late", "A line that was late stays late.",
     (SHEDDER, "late_ = «ends_ != long_ago && shortest_ > target_»;",
      "late_ || (ends_ != long_ago && shortest_ > target_)")),
    ("sheds_the_reserved", "A waiter of priority reserved is refused early.",
     (SETTLE, "waiter_id oldest = line_.oldest();«»",
      "if (!line_.empty()) oldest = line_.head();")),

    # Several at once.
    ("some_is_enough_for_many", "A gatherer gets fewer than it wants.",
     (SETTLE, "if («slots_.kept() < wanted») return false;", "slots_.kept() == 0"),
     (SETTLE, "std::size_t i = 0; «i < wanted»;", "i < wanted && slots_.kept() > 0")),
    ("kept_for_no_waiter", "What was kept for a gatherer stays kept when it has gone.",
     (SETTLE, "«» while (slots_.kept() > 0) slots_.move(slots_.oldest(idle_kind::kept)",
      "return;")),
    ("many_count_as_one", "A gatherer counts as a waiter for one.",
     (SETTLE, ".wanted = «line_.wanted()»", "line_.size()")),
    ("waiter_for_too_many_stays", "A resize leaves a waiter in line that wants more than max.",
     (CONTROL, "«for (waiter_id id; line_.has(id = line_.who_wants_more_than(max));)"
               " refuse(id, errc::deadlock, out);»", "")),
    ("kept_ones_hide_a_deadlock", "What is kept for a waiting head counts as free.",
     (MACHINE, "bool behind = «!line_.empty() && who.rank >= line_.first().rank»;", "false")),

    # Deadlocks.
    ("deadlock_goes_unnoticed", "A thread waits for its own lease.",
     (MACHINE, "return «settings_.refuse_deadlock» && waits_in_vain(who, has);", "false")),
    ("any_nested_wait_is_a_deadlock", "A thread with a lease is refused when all are leased.",
     (MACHINE, "bool waits ="
               " «s.holder == who.holder || (s.holder != 0 && line_.has_thread(s.holder))»;",
      "true")),
    ("moved_lease_keeps_its_holder", "A lease that was moved still counts as its first thread's.",
     (WORLD, "«machine_.held_by(who.slot, 0);»", "")),

    # Cancels.
    ("cancel_leaves_the_waiter_in_line", "A canceled waiter stays in line.",
     (MACHINE, "«» if (in_line) refuse(id, errc::canceled, out);", "return true;")),
    ("cancel_kills_the_open", "A cancel gives up an open in flight.",
     (MACHINE, "if (in_line) refuse(id, errc::canceled, out);«»",
      "for (slot_id s = 0; s < slots_.places(); ++s)"
      " if (slots_[s].state == slot_state::opening) { calls_.remove(s); vacate(s, out); break; }")),
    ("cancel_after_grant_lends_twice", "A cancel that comes too late frees some lease.",
     (MACHINE, "«» bool in_line = line_.has(id);",
      "if (!line_.has(id)) for (slot_id s = 0; s < slots_.places(); ++s)"
      " if (slots_[s].state == slot_state::leased) return become_idle(now, s), false;")),
    ("stale_cancel_hits_another", "The name of a waiter that left names the next one.",
     (LINE_HEADER, "«++n.generation;»", "")),
    ("cancel_takes_the_lease_back", "A cancel after the grant takes the lease back.",
     (WORLD, "take_out(who);«» }",
      "if (who.what == doing::told && who.slot != core::no_slot) {"
      " machine_.release(now_, who.slot, condition::clean, 0, nanoseconds{0}, mine_);"
      " model_.release(now_, who.slot, condition::clean, 0);"
      " who.slot = core::no_slot; tell(who); }")),

    # A coroutine that is destroyed.
    ("destroyed_one_stays_in_line", "A coroutine that is destroyed stays in line.",
     (COROUTINE, "«» if (take_out(who)) return;",
      "if (who.what == doing::waiting) return end(who);")),
    ("destroyed_one_is_told", "A coroutine that was destroyed is told that it is refused.",
     (COROUTINE, "if (told && «!who.withdrawn») tell(who);", "true"),
     (SMALL_WORLD, "if («who.withdrawn») return vanish(who);"
                   " if (is_coroutine(who) && is_suspended(who))", "false")),
    ("destroyed_one_keeps_its_lease", "The lease of a destroyed coroutine never ends.",
     (COROUTINE, "if («slot == core::no_slot») return;", "true"),
     (SMALL_WORLD, "if («slot == core::no_slot») return;", "true")),
    ("destroyed_one_asks_again", "A destroyed coroutine goes back to its place in line.",
     (COROUTINE, "if («who.withdrawn») end(who);", "false"),
     (SMALL_WORLD, "if («who.withdrawn») return vanish(who); if (who.stopped)", "false")),

    # before_acquire.
    ("granted_at_once_is_not_looked_at", "before_acquire does not look at a grant at once.",
     (COROUTINE, "bool goes_on = !is_coroutine(who) || (!from_line && «!plan_.looks»);", "true")),
    ("unfit_costs_the_place", "After an unfit resource a waiter goes to the end of the line.",
     (WORLD, "bool stuck = deadlocks(who);«»", "r.ticket = 0;"),
     (SMALL_WORLD, ".again = again};«»", "r.ticket = 0;")),
    ("unfit_restarts_the_bypass", "After an unfit resource a waiter may be bypassed anew.",
     (WORLD, "bool stuck = deadlocks(who);«»", "r.arrived = now_;")),
    ("unfit_restarts_the_deadline", "After an unfit resource the timeout begins again.",
     (WORLD, "bool stuck = deadlocks(who);«»",
      "if (who.deadline != never) r.deadline = now_ + (who.deadline - who.arrived);")),
    ("unfit_meets_a_full_line", "line_max refuses a waiter that goes back to its place.",
     (MACHINE, "bool has_a_place = «who.again» ||", "false")),
    ("unfit_ones_reopened_at_once", "An unfit new resource does not start the backoff.",
     (MACHINE, "if («how == condition::unfit && s.uses <= 1») {", "false")),
    ("stopped_one_asks_again", "A canceled coroutine goes back to its place in line.",
     (COROUTINE, "else if («who.stopped») tell(who);", "false"),
     (SMALL_WORLD, "if («who.stopped») return tell(who", "false")),
    ("close_forgets_admissions", "A close loses coroutines whose resource is being looked at.",
     (WORLD, "closed_ = true;«» machine_.close(",
      "for (borrower& b : borrowers_) if (b.what == doing::admitting) end(b);")),

    # The short way of a release in a crowded pool.
    ("hand_over_passes_on_the_worn", "A worn resource is handed to the head.",
     (MACHINE, "return «!wear(s, now)» && !needs_probe(s, now)", "true")),
    ("hand_over_forgets_what_is_due", "A hand-over passes by a timer that is due.",
     (HEADER, "return full_ && !line_.empty() && «now < wake_at()»;", "true")),
    ("returns_are_never_news", "A return never changes when a sweep or a heartbeat is due.",
     (MACHINE, "«» if (tried_) return never;", "return long_ago;")),

    # Express: each condition under which only the line moves.
    ("express_ignores_what_is_due", "Express ends only with the next settle.",
     (SETTLE, "std::min(others_at_, calm_until_) : express_limit();«»",
      "if (express_until_ != long_ago) express_until_ = never;")),
    ("express_ignores_deadlines", "Express passes by a waiter's deadline that is due.",
     (HEADER, "return now < express_until_ && «now < line_.earliest()»;", "true")),
    ("express_ignores_room", "Express runs in a pool with room.",
     (SETTLE, "if («!full_» || settings_.fairness == fairness::bounded", "false")),
    ("express_ignores_bypass", "Express runs where the head may be bypassed.",
     (SETTLE, "if (!full_ || «settings_.fairness == fairness::bounded»", "false")),
    ("express_ignores_trials", "Express runs while the circuit recovers.",
     (SETTLE, "return !reports_ && !probes && «!tries»", "true")),
    ("express_ignores_surplus", "Express runs while there are too many.",
     (SETTLE, "return !reports_ && !probes && !tries && «!slots_.surplus()»;", "true")),
    ("express_ignores_probes", "Express runs where each return or lend is probed.",
     (SETTLE, "return !reports_ && «!probes»", "true")),
    ("express_tells_no_strategy", "Express does not end when the breaker is to be told.",
     (SETTLE, "return «std::min(others_at_, circuit_.tell_at())»;", "others_at_")),
    ("express_goes_on_when_a_call_begins", "The timeout of a new call does not end express.",
     (MACHINE, "«express_until_ = std::min(express_until_, others_at_);»", "")),
    ("express_passes_on_the_old", "Express lends what retire_all has retired.",
     (HEADER, "if («is_old(s)» || s.expires_at <= now || s.uses + uses", "false")),
    ("express_passes_on_the_expired", "Express lends what is too old.",
     (HEADER, "if (is_old(s) || «s.expires_at <= now» || s.uses + uses", "false")),
    ("express_passes_on_the_used_up", "Express lends what was used max_uses times.",
     (HEADER, "s.expires_at <= now || «s.uses + uses >= settings_.max_uses»", "false")),
    ("express_passes_on_the_suspect", "Express lends what must be probed first.",
     (HEADER, "return «s.checked_at > suspect_at_ || !can_.probe»;", "true")),
    ("express_serves_the_last_in_line", "Express empties the line.",
     (EXPRESS, "if (!is_express(now) || line_.size() < «2») return false;", "1")),
    ("express_gives_one_to_many", "Express gives one resource to a head that wants several.",
     (EXPRESS, "if («line_.first().count > 1») return false;", "false")),
    ("express_overfills_the_line", "Express lets more wait than line_max.",
     (EXPRESS, "if («line_.size() >= settings_.line_max») return false;", "false")),
    ("express_forgets_what_becomes_idle", "Express does not note when its resource is due.",
     (EXPRESS, "«note_idle(now, s);» wait_.record(now - w.arrived)", "")),
    ("express_lets_all_callers_wait", "Express lets callers wait that must be refused.",
     (MACHINE, "if («plain») { waiter w = waiter_of(now, who);", "true"),
     (EXPRESS, "if («who.deadline <= now») return false;", "false")),
    ("express_passes_by_the_set_aside", "Express overlooks that the next head has a claim.",
     (EXPRESS, "if («slots_.aside() > 0») return false;", "false")),

    # Express: each condition under which only the idle move.
    ("calm_ignores_close", "A closed pool may be calm.",
     (SETTLE, "if («closed_» || paused_ || !well || !is_plain()) return long_ago;", "false")),
    ("calm_ignores_pause", "A paused pool may be calm.",
     (SETTLE, "if (closed_ || «paused_» || !well || !is_plain()) return long_ago;", "false")),
    ("calm_ignores_the_minimum", "A pool without its minimum may be calm.",
     (SETTLE, "bool well = «ready()» && !tried_ && !shedder_.on();", "true")),
    ("calm_ignores_tries", "A pool in which a try found nothing may be calm.",
     (SETTLE, "bool well = ready() && «!tried_» && !shedder_.on();", "true")),
    ("calm_ignores_shedding", "A pool that refuses early may be calm.",
     (SETTLE, "bool well = ready() && !tried_ && «!shedder_.on()»;", "true")),
    ("calm_ignores_the_spared", "Calm does not end when what was spared can go.",
     (SETTLE, "if («spared_any_») until = std::min(until, after(last_sweep_", "false")),
    ("calm_tells_no_strategy", "Calm does not end when the breaker is to be told.",
     (SETTLE, "instant until = «circuit_.tell_at()»;", "never")),
    ("calm_overtakes_the_line", "Calm lends although there are waiters.",
     (HEADER, "return now < express_until_ && «line_.empty()»;", "true")),
    ("calm_lends_the_spares", "Calm lends what min_idle keeps.",
     (EXPRESS, "if («count(slot_state::idle) <= lend_floor_») return false;", "false")),
    ("calm_lends_the_expired", "Calm lends what is too old.",
     (EXPRESS, "if («s.expires_at <= now» || needs_probe(s, now)) return false;", "false")),
    ("calm_lends_the_unproven", "Calm lends what must be probed first.",
     (EXPRESS, "if (s.expires_at <= now || «needs_probe(s, now)») return false;", "false")),
    ("calm_forgets_what_becomes_due", "Calm does not note when a returned resource is due.",
     (EXPRESS, "«rest_at_ = std::min(rest_at_, idle_wake_at());»", "")),
    ("calm_forgets_to_look", "Calm does not move the next look for a freeze.",
     (HEADER, "inline void machine::stay_calm(instant now) {«»", "return;")),
    ("calm_forgets_a_call_that_begins", "Calm loses the timeout of a call that begins.",
     (MACHINE, "others_at_ = std::min(others_at_, rest_at_);«»", "rest_at_ = never;")),
    ("calm_forgets_the_debt", "Calm takes an owing lease back as clean.",
     (EXPRESS, "++released_; s.owes = «owes»;", "false")),

    # Turns: each condition under which a thread has its own back.
    ("turns_never_end", "A thread has its own back forever.",
     (TURNS, "&& «!ended» && comebacks_.are_likely(lends_)", "true")),
    ("turns_count_on", "A new turn counts on from the last one.",
     (HEADER, "priority rank) { «s.turns = 0;»", "")),
    ("turns_ignore_rank", "A thread of lower priority than the head has its own back.",
     (TURNS, "if («rank > line_.first().rank») return no_slot;", "false")),
    ("turns_of_lower_rank_go_on", "A lease of lower priority than the head's is set aside.",
     (TURNS, "return «s.rank <= line_.first().rank» && !ended", "true")),
    ("turns_make_coroutines_wait", "A coroutine at the head waits for turns to end.",
     (TURNS, "return «head.is_thread» && head.rank != priority::reserved;", "true")),
    ("turns_make_the_reserved_wait", "A head of priority reserved waits for turns to end.",
     (TURNS, "return head.is_thread && «head.rank != priority::reserved»;", "true")),
    ("turns_make_a_new_head_wait", "A new head that need not wait for turns waits for them.",
     (MACHINE, "if (!nothing_free || «slots_.aside() > 0») settle(now, out);", "false"),
     (SETTLE, "if (slots_.aside() > 0 && «!head_grants_turns()») let_go_of_aside();", "false")),
    ("turns_tell_the_shedder", "A lease that was taken back counts as no wait.",
     (MACHINE, "if («s.turns == 0») shedder_.served(", "true")),
    ("missed_turns_tell_nothing", "Threads that do not come back do not stop the turns.",
     (COMEBACKS, "if («!are_likely(lends)») return;", "true")),
    ("coroutines_have_turns", "What a coroutine was lent is set aside for its thread.",
     (TURNS, "if (thread == 0 || «!s.by_thread» || !head_grants_turns())", "false")),
    ("any_thread_takes_what_is_aside", "Every thread has what is set aside for one.",
     (TURNS, "if («s.holder == thread» && may_stay_aside(now, s))", "true")),
    ("what_is_set_aside_is_never_given", "What was not taken back in time stays aside.",
     (TURNS, "«» if (missed) comebacks_.missed(lends_);", "if (missed) return;")),
    ("what_is_set_aside_has_no_timer", "No timer ends a moment aside.",
     (HEADER, "return «std::min(at, aside_at())»;", "at")),
    ("what_is_set_aside_stays_alone", "Something is aside although the line is empty.",
     (SETTLE, "if (line_.empty()) «let_go_of_aside();»", "")),
    ("old_ones_are_taken_back", "A thread takes back what is too old.",
     (TURNS, "return «s.expires_at > now» && !needs_probe(s, now)", "true")),
    ("suspect_ones_are_taken_back", "A thread takes back what must be probed.",
     (TURNS, "return s.expires_at > now && «!needs_probe(s, now)»", "true")),
    ("pause_keeps_what_is_set_aside", "Turns go on in a paused pool.",
     (TURNS, "if (closed_ || «paused_» || !circuit_.flows() || line_.empty())", "false")),
    ("recovery_keeps_what_is_set_aside", "Turns go on while the circuit recovers.",
     (TURNS, "if (closed_ || paused_ || «!circuit_.flows()» || line_.empty())", "false")),
    ("resize_keeps_what_is_set_aside", "A resize leaves too many aside.",
     (CONTROL, "«let_go_of_aside();»", "")),
    ("retire_all_spares_what_is_set_aside", "retire_all leaves what is aside.",
     (CONTROL, "pacer_.forget_failures(); for (idle_kind kind : {idle_kind::fresh,"
               " idle_kind::stale, idle_kind::kept, idle_kind::aside})"
               " while («slots_.oldest(kind) != no_slot»)",
      "kind != idle_kind::aside && slots_.oldest(kind) != no_slot")),
    ("debts_are_forgotten_aside", "An owing lease that is set aside counts as clean.",
     (TURNS, "s.owes = «owes»;", "false")),
    ("debts_are_kept_aside", "A pause leaves an owing resource aside.",
     (SETTLE, "idle_kind::kept, idle_kind::aside}) for (slot_id id = slots_.oldest(kind);"
              " «id != no_slot»;)", "id != no_slot && kind != idle_kind::aside")),

    # try_acquire.
    ("try_acquire_lends_unprobed", "try_acquire lends what must be probed first.",
     (MACHINE, "got = next_fresh(now, out);«»",
      "if (!got && slots_.oldest(idle_kind::stale) != no_slot)"
      " got = slots_.oldest(idle_kind::stale);")),
    ("tried_open_never_ends", "A try that found nothing has one opened forever.",
     (MACHINE, "«tried_ = false;» instant idle_until", "")),

    # Probes.
    ("heartbeat_hides_all_idle", "All that is idle is probed at once.",
     (SETTLE, "beating_ = «true»;", "false"),
     (SETTLE, "begin(now, oldest, slot_state::probing, verb::probe, out);«»", "beat(now, out);")),
    ("heartbeat_ignores_waiters", "A heartbeat probes what a waiter needs.",
     (SETTLE, "if («!line_.empty()») return; slot_id oldest = least_proven();", "false")),
    ("probe_after_idle_ignored", "What was idle for long is lent without a probe.",
     (HEADER, "return suspect || «after(good_at, settings_.probe_after_idle) <= now»;", "false")),
    ("two_dead_ones_tell_nothing", "Two failed probes in a row make no other suspect.",
     (MACHINE, "if (++dead_in_row_ >= 2) «suspect_at_ = now;»", "")),
    ("frozen_goes_unnoticed", "A timer that comes late makes nothing suspect.",
     (HEADER, "if («after(wake_at(), frozen_for) <= now») suspect_at_ = now;", "false")),
    ("call_from_before_proves_it", "A call that began before a suspicion removes it.",
     (MACHINE, "return «s.called_at <= suspect_at_» ? s.called_at : now;", "false")),
    ("suspended_beats_on", "Suspended maintenance sends heartbeats.",
     (HEADER, "return !paused_ && «maintains_» && circuit_.flows();", "true")),
    ("inactive_beats_on", "An inactive pool sends heartbeats.",
     (HEADER, "return !paused_ && maintains_ && «circuit_.flows()»;", "true")),

    # Releases.
    ("dirty_goes_back_without_reset", "A dirty resource is lent again as it is.",
     (MACHINE, "if («dirty») { if (!can_.reset)", "false")),
    ("failed_reset_goes_back", "A failed reset keeps the resource.",
     (MACHINE, "if («how != outcome::ok») { report(event_kind::reset_failed", "false")),

    # Retirement.
    ("jitter_rolled_again_at_each_check", "Each sweep draws the age limit anew.",
     (SETTLE, "if («s.expires_at <= now») { if (!must_wait_for_replacement(s))",
      "std::min(s.expires_at, draw_expiry(s.checked_at)) <= now")),
    ("sweep_goes_below_minimum", "A sweep closes what the minimum needs.",
     (SETTLE, "if («!minimum_needs(s)») return retire(now, id, retire_reason::idle", "true")),
    ("sweep_forgets_the_oldest", "A sweep passes by the first resource.",
     (SETTLE, "slot_id id = slots_.oldest(kind);«» while (id != no_slot) {",
      "if (id != no_slot) id = slots_[id].next;")),
    ("age_not_checked_at_acquire", "What is too old is lent.",
     (SETTLE, "if (id == no_slot) return no_slot; if (auto why = «wear(slots_[id], now)»)",
      "std::optional<retire_reason>{}")),
    ("uses_not_counted", "max_uses is never reached.",
     (MACHINE, "s.holder = 0; «++s.uses;»", ""),
     (EXPRESS, "++lent_now_; «++s.uses;»", ""),
     (TURNS, "++lent_now_; «++s.uses;»", "")),
    ("old_generation_lent_again", "retire_all leaves what is idle or comes back.",
     (HEADER, "if («is_old(s)») return retire_reason::generation;", "false"),
     (CONTROL, "pacer_.forget_failures(); for (idle_kind kind : {idle_kind::fresh,"
               " idle_kind::stale, idle_kind::kept, idle_kind::aside})"
               " while («slots_.oldest(kind) != no_slot»)",
      "kind != idle_kind::fresh && slots_.oldest(kind) != no_slot")),
    ("replacement_is_taken_by_another", "A replacement serves one that has only just grown old.",
     (SETTLE, "if («slots_[id].expiring == expiring») sweep_one(now, id, out);",
      "expiring")),
    ("suspended_sweeps_on", "Suspended maintenance sweeps.",
     (SETTLE, "if (!paused_ && «maintains_» && sweep_at() <= now) sweep(now, out);", "true")),
    ("too_many_go_back", "After a resize what is too many is lent again.",
     (HEADER, "if («slots_.surplus()») return retire_reason::surplus;", "false")),
    ("too_many_stay_idle", "After a resize what is too many stays idle.",
     (CONTROL, "«doom_surplus();» settle(now, out);", "")),
    ("resize_opens_the_old_max", "After a resize the old max is opened.",
     (SETTLE, "return {.max = «slots_.max()», .min_size", "slots_.places()")),

    # Calls and their answers.
    ("late_answer_believed", "The answer of a call that was given up counts.",
     (MACHINE, "if («s.state != expected || s.call != call») return false;",
      "s.state != expected")),
    ("call_without_deadline", "A probe has no timeout.",
     (MACHINE, "«» instant deadline = after(now, timeout_of(s.state, settings_));",
      "if (s.state == slot_state::probing) return;")),
    ("waiting_calls_time_out", "The timeout of a call runs before it is made.",
     (MACHINE, "«» out.push_back({.what = action::kind::call", "begun(now, id, s.call);")),

    # Failing opens.
    ("backoff_forgets_to_retry", "An open that the backoff delays has no timer.",
     (PACER, "«retry_at_ = at;» return 0;", "")),
    ("refill_stops_after_a_failure", "After a failed open the minimum is not restored.",
     (PACER, "«» if (instant at = due(s.wanted > 0); at > now)",
      "if (!well() && s.wanted == 0) return 0;")),
    ("final_error_is_retried", "A final error of an open refuses no waiter.",
     (MACHINE, "if («!final && settings_.open_errors != open_errors::fail_fast») return;",
      "true")),
    ("fail_fast_retries", "open_errors::fail_fast waits for the next open.",
     (MACHINE, "if (!final && «settings_.open_errors != open_errors::fail_fast») return;",
      "true")),

    # What owes a reset.
    ("release_forgets_the_debt", "An owing lease comes back as clean.",
     (MACHINE, "end_trial(s); s.owes = «owes»;", "false")),
    ("reset_leaves_the_debt", "What was reset still owes a reset.",
     (MACHINE, "«s.owes = false;» if (how != outcome::ok)", "")),
    ("use_leaves_the_debt", "A clean lease leaves the debt of the one before.",
     (EXPRESS, "++released_; s.owes = «owes»;", "owes || s.owes")),
    ("debts_are_never_due", "reset_after is not noted.",
     (MACHINE, "if («s.owes») debt_due_ = std::min(debt_due_, debt_due(s));", "false")),
    ("debtor_probed_at_acquire", "What owes a reset is probed for a waiter.",
     (SETTLE, "} else if («slots_[id].owes») {", "false")),
    ("debtor_probed_by_the_beat", "What owes a reset is probed by the heartbeat.",
     (SETTLE, "while (beat_due_ <= now && «slots_[oldest].owes») {", "false")),
    ("debtor_probed_on_release", "What owes a reset is probed on release.",
     (HEADER, "!paused_ && maintains_ && «!probes»;", "true")),
    ("paused_keeps_debts", "A pause resets nothing that owes it.",
     (CONTROL, "paused_.set(true); «pay_all_debts(now, out);»", "")),
    ("suspended_keeps_debts", "Suspended maintenance resets nothing that owes it.",
     (CONTROL, "maintains_ = false; «pay_all_debts(now, out);»", "")),

    # Pause and maintenance.
    ("paused_pool_lends", "A paused pool lends.",
     (SETTLE, "if («!paused_» && (!line_.empty() || tried_)) lend_idle(now, out);", "true")),
    ("paused_pool_opens", "A paused pool opens.",
     (SETTLE, "if («!paused_») open_missing(now, out);", "true")),
    ("resume_serves_no_waiter", "A resume serves no waiter.",
     (CONTROL, "paused_.set(false); «settle(now, out);»", "")),
    ("suspended_refills", "Suspended maintenance restores the minimum.",
     (SETTLE, "bool fills = warmed_ && «maintains_» && !inactive;", "true")),

    # Close.
    ("close_hands_out_an_opening_one", "An open that ends after a close is kept.",
     (MACHINE, "if («closed_») begin_close(now, id, out); else if (is_old(s))", "false")),
    ("close_keeps_probing_ones", "A probe that ends after a close keeps the resource.",
     (MACHINE, "dead_in_row_ = 0; if («closed_») begin_close(now, id, out);", "false")),
    ("close_counts_waiters_as_timed_out", "A close refuses with timed_out.",
     (CONTROL, "refuse(line_.head(), «errc::closed», out)", "errc::timed_out")),

    # The circuit breaker.
    ("inactive_pool_lends", "An inactive pool lends.",
     (MACHINE, "if («!lets_in(who.count)») return refused(errc::unavailable);", "false")),
    ("inactive_keeps_its_waiters", "A pool that becomes inactive keeps its waiters.",
     (CONTROL, "«refuse_shut_out(out);» settle(now, out);", "")),
    ("recovering_ignores_its_probes", "A recovering pool lends more than its probes.",
     (CIRCUIT, "breaker_state::recovering && «trying < probes_»);", "true")),
    ("trial_never_ends", "A trial counts after its lease has ended.",
     (CONTROL, "if («!s.trial») return;", "true")),
    ("cool_down_never_ends", "The strategy hears nothing of the end of the cool-down.",
     (CIRCUIT, "ask_at_ = «where.to == breaker_state::inactive» ?", "false")),
    ("failed_open_is_no_news", "The strategy is not told of a failed open.",
     (MACHINE, "«judge(now, circuit_news::failed, s.resource, out);» if (s.epoch == epoch_)", "")),
    ("accepted_release_is_no_news", "The strategy is not told of leases that ended well.",
     (CONTROL, "if («how == condition::clean || how == condition::dirty ||"
               " how == condition::owing»)", "false"),
     (EXPRESS, "«circuit_.count_success(now);» if (held) hold_.record(*held);"
               " slots_.take_back(id);", "")),
    ("stale_ruling_followed", "A ruling on what was before another move is followed.",
     (CONTROL, "if («moves != circuit_.moves()») return false;", "false")),
    ("open_counts_as_a_use", "An open counts as a lease that ended well.",
     (MACHINE, "report(event_kind::opened, s.resource, out, took);«»",
      "judge(now, circuit_news::succeeded, 0, out);")),
    ("earlier_lease_ends_recovery", "A lease from before the recovery counts for it.",
     (CONTROL, "if («earlier») return;", "false")),
    ("unused_lease_ends_recovery", "A lease that was never used counts as a success.",
     (CONTROL, "how == condition::dirty || «how == condition::owing»)",
      "(how == condition::owing || how == condition::unused)")),
    ("inactive_keeps_its_minimum", "An inactive pool restores its minimum.",
     (SETTLE, "bool fills = warmed_ && maintains_ && «!inactive»;", "true")),

    # Leases that are held for long.
    ("leak_is_told_once", "A lease is reported once, however long it lasts.",
     (LEAKS, "s.due = «after(now, std::max(*held, shortest))»;", "never")),
    ("leak_is_the_last_ones", "A lease inherits the report of the one before.",
     (LEAKS, "if («s.number != found.number»)", "false")),
    ("own_leak_limit_ignored", "A lease's own limit does not count.",
     (LEAKS, "if («limit == duration::zero()») limit = limit_;", "true")),
)

# Changes that must make no difference.
NEUTRAL = (
    ("without_express", "Every request takes the long way.",
     (SETTLE, "bool machine::is_plain() const {«»", "return false;")),
)

FOLDERS = ("src/core", "src/sim")
NAMES = """\
// The planted faults by number. Written by faults.py.
#pragma once

#include <array>

namespace cenote::faults {{

inline constexpr std::array names = {{
    "none",
{faults}}};
inline constexpr unsigned without_express = names.size();

}}  // namespace cenote::faults
"""


def plant(root):
    """The sources with all faults in them, by path."""
    changes, sources = {}, {}
    for number, (name, _, *edits) in enumerate(FAULTS + NEUTRAL, 1):
        for path, text, new in edits:
            if path not in sources:
                sources[path] = schema.Source((root / path).read_text(encoding="utf-8"))
            try:
                change = sources[path].change(text, number, new)
            except schema.Misfit as why:
                sys.exit(f"faults.py: a fault that no longer applies: {name}: {why}, in {path}")
            changes.setdefault(path, []).append(change)
    return {path: '#include "faults/switch.hpp"  ' + schema.switched(sources[path].text, each)
            for path, each in changes.items()}


def write(path, text):
    """Leaves a file alone that is the same, so that it is not compiled again."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main():
    root, out = map(Path, sys.argv[1:])
    planted = plant(root)
    for folder in FOLDERS:
        for path in sorted((root / folder).iterdir()):
            name = f"{folder}/{path.name}"
            write(out / folder.removeprefix("src/") / path.name,
                  planted.get(name) or path.read_text(encoding="utf-8"))
    write(out / Path(SMALL_WORLD).name, planted[SMALL_WORLD])
    names = "".join(f'    "{name}",\n' for name, *_ in FAULTS)
    write(out / "faults" / "names.hpp", NAMES.format(faults=names))


if __name__ == "__main__":
    main()

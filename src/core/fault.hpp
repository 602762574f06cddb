// Small bugs that the simulator must find: the core's, and the keeper's where the simulated world
// plays it. Only the simulator's faulty twin is built with them.
#pragma once

#include <cstddef>

// clang-format off
#define CENOTE_FAULTS(X)                  \
    X(discard_wakes_nobody)               \
    X(rejected_release_wakes_nobody)      \
    X(failed_open_wakes_nobody)           \
    X(failed_open_keeps_its_slot)         \
    X(opens_counted_only_when_done)       \
    X(opens_ignore_closing_ones)          \
    X(warm_up_ignores_opening_max)        \
    X(spike_opens_for_every_waiter)       \
    X(failed_probe_restarts_the_deadline) \
    X(failed_probe_costs_the_place)       \
    X(cancel_leaves_the_waiter_in_line)   \
    X(cancel_kills_the_open)              \
    X(cancel_after_grant_lends_twice)     \
    X(newcomer_overtakes_the_line)        \
    X(who_cannot_wait_waits)              \
    X(try_acquire_lends_unprobed)         \
    X(line_is_last_in_first_out)          \
    X(heartbeat_hides_all_idle)           \
    X(heartbeat_ignores_waiters)          \
    X(close_hands_out_an_opening_one)     \
    X(close_keeps_probing_ones)           \
    X(close_counts_waiters_as_timed_out)  \
    X(vacant_before_close_finished)       \
    X(jitter_rolled_again_at_each_check)  \
    X(sweep_goes_below_minimum)           \
    X(sweep_forgets_the_oldest)           \
    X(age_not_checked_at_acquire)         \
    X(uses_not_counted)                   \
    X(old_generation_lent_again)          \
    X(dirty_goes_back_without_reset)      \
    X(failed_reset_goes_back)             \
    X(probe_after_idle_ignored)           \
    X(late_answer_believed)               \
    X(call_without_deadline)              \
    X(backoff_forgets_to_retry)           \
    X(refill_stops_after_a_failure)       \
    X(final_error_retried_for_ever)       \
    X(deadline_one_late)                  \
    X(bounded_never_hands_over)           \
    X(two_dead_ones_tell_nothing)         \
    X(frozen_goes_unnoticed)              \
    X(detach_keeps_the_slot)              \
    X(tried_open_never_ends)              \
    X(hand_over_passes_on_the_worn)       \
    X(hand_over_forgets_what_is_due)      \
    X(unfit_ones_reopened_at_once)        \
    X(waiting_calls_time_out)             \
    X(stale_cancel_hits_another)          \
    X(removed_deadline_breaks_the_heap)   \
    X(unfit_meets_a_full_line)            \
    X(unfit_costs_the_place)              \
    X(unfit_restarts_the_bypass)          \
    X(unfit_restarts_the_deadline)        \
    X(granted_at_once_is_not_looked_at)   \
    X(cancel_takes_the_lease_back)        \
    X(stopped_one_asks_again)             \
    X(destroyed_one_asks_again)           \
    X(destroyed_one_stays_in_line)        \
    X(destroyed_one_keeps_its_lease)      \
    X(destroyed_one_is_told)              \
    X(close_forgets_who_is_admitted)      \
    X(open_rate_ignored)                  \
    X(no_token_ever_comes)                \
    X(pause_lends_all_the_same)           \
    X(pause_opens_all_the_same)           \
    X(resume_serves_nobody)               \
    X(inactive_lends_all_the_same)        \
    X(inactive_keeps_its_waiters)         \
    X(recovering_lets_everybody_in)       \
    X(trial_never_ends)                   \
    X(cool_down_never_ends)               \
    X(failed_open_is_no_news)             \
    X(accepted_release_is_no_news)        \
    X(stale_ruling_followed)              \
    X(open_counts_as_a_use)               \
    X(earlier_lease_ends_recovery)        \
    X(unused_lease_ends_recovery)         \
    X(inactive_keeps_its_minimum)         \
    X(inactive_beats_on)                  \
    X(moved_lease_keeps_its_holder)       \
    X(priority_does_not_count)            \
    X(reserved_meets_a_full_line)         \
    X(sheds_nobody)                       \
    X(late_for_ever)                      \
    X(sheds_the_reserved)                 \
    X(some_is_enough_for_many)            \
    X(kept_for_nobody)                    \
    X(many_count_as_one)                  \
    X(call_from_before_proves_it)         \
    X(deadlock_goes_unnoticed)            \
    X(any_nested_wait_is_a_deadlock)      \
    X(too_many_go_back)                   \
    X(too_many_stay_idle)                 \
    X(fewer_are_opened_all_the_same)      \
    X(who_wants_too_many_waits)           \
    X(hanging_opens_block_the_rest)       \
    X(strays_without_end)                 \
    X(oldest_open_makes_way)              \
    X(replacement_is_taken_by_another)    \
    X(leak_is_told_once)                  \
    X(leak_is_the_last_ones)              \
    X(own_leak_limit_ignored)             \
    X(kept_ones_hide_a_deadlock)          \
    X(no_queue_joins_the_line)            \
    X(no_queue_overlooks_the_line)        \
    X(fail_fast_retries)                  \
    X(suspended_sweeps_on)                \
    X(suspended_beats_on)                 \
    X(suspended_refills)                  \
    X(equal_deadlines_ignore_tickets)     \
    X(deadlines_are_always_in_order)      \
    X(old_places_are_in_order)            \
    X(returns_are_never_news)             \
    X(express_ignores_what_is_due)        \
    X(express_ignores_deadlines)          \
    X(express_ignores_room)               \
    X(express_ignores_bypass)             \
    X(express_ignores_trials)             \
    X(express_ignores_surplus)            \
    X(express_ignores_probes)             \
    X(express_tells_no_strategy)          \
    X(express_goes_on_when_a_call_begins) \
    X(express_passes_on_the_old)          \
    X(express_passes_on_the_expired)      \
    X(express_passes_on_the_used_up)      \
    X(express_passes_on_the_suspect)      \
    X(express_serves_the_last_in_line)    \
    X(express_gives_one_to_many)          \
    X(express_overfills_the_line)         \
    X(express_forgets_what_becomes_idle)  \
    X(express_lets_everybody_wait)        \
    X(calm_ignores_close)                 \
    X(calm_ignores_pause)                 \
    X(calm_ignores_the_minimum)           \
    X(calm_ignores_tries)                 \
    X(calm_ignores_shedding)              \
    X(calm_ignores_the_spared)            \
    X(calm_tells_no_strategy)             \
    X(calm_overtakes_the_line)            \
    X(calm_lends_the_spares)              \
    X(calm_lends_the_expired)             \
    X(calm_lends_the_unproven)            \
    X(calm_forgets_what_becomes_due)      \
    X(calm_forgets_to_look)               \
    X(calm_forgets_a_call_that_begins)    \
    X(calm_forgets_the_debt)              \
    X(release_forgets_the_debt)           \
    X(reset_leaves_the_debt)              \
    X(use_leaves_the_debt)                \
    X(debts_are_never_due)                \
    X(debtor_probed_at_acquire)           \
    X(debtor_probed_by_the_beat)          \
    X(debtor_probed_on_release)           \
    X(paused_keeps_debts)                 \
    X(suspended_keeps_debts)              \
    X(turns_never_end)                    \
    X(turns_count_on)                     \
    X(turns_ignore_rank)                  \
    X(turns_of_lower_rank_go_on)          \
    X(turns_make_coroutines_wait)         \
    X(turns_make_the_reserved_wait)       \
    X(turns_make_a_new_head_wait)         \
    X(turns_tell_the_shedder)             \
    X(missed_turns_tell_nothing)          \
    X(coroutines_have_turns)              \
    X(anybody_has_what_is_set_aside)      \
    X(what_is_set_aside_is_never_given)   \
    X(what_is_set_aside_has_no_timer)     \
    X(what_is_set_aside_stays_alone)      \
    X(old_ones_are_taken_back)            \
    X(suspect_ones_are_taken_back)        \
    X(pause_keeps_what_is_set_aside)      \
    X(recovery_keeps_what_is_set_aside)   \
    X(resize_keeps_what_is_set_aside)     \
    X(retire_all_spares_what_is_set_aside) \
    X(express_passes_by_the_set_aside)    \
    X(debts_are_forgotten_aside)          \
    X(debts_are_kept_aside)
// clang-format on

namespace cenote::core {

enum class fault : unsigned {
    none,
#define CENOTE_FAULT(name) name,
    CENOTE_FAULTS(CENOTE_FAULT)
#undef CENOTE_FAULT
        count,
};

inline constexpr std::size_t fault_count = static_cast<std::size_t>(fault::count);

#ifdef CENOTE_PLANTED_FAULTS
/// The bug that is planted now; set by the simulator alone.
inline fault planted_fault = fault::none;
inline bool planted(fault f) { return planted_fault == f; }
/// Everything takes the long way, which must change nothing that anybody sees.
inline bool without_express = false;
inline bool express_is_off() { return without_express; }
#else
constexpr bool planted(fault) { return false; }
constexpr bool express_is_off() { return false; }
#endif

}  // namespace cenote::core

/* The ABI of version 0.1: sizes, offsets and values. Existing ones never change; new members are
 * added at the end of a structure. */
#include "check.h"

#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), "the size of " #type)
#define AT(type, member, bytes) \
    _Static_assert(offsetof(type, member) == (bytes), "the place of " #type "." #member)
#define IS(name, number) _Static_assert((name) == (number), "the number of " #name)

SIZE(cenote_pool, 8);
SIZE(cenote_lease, 8);
SIZE(cenote_request, 8);
SIZE(cenote_code, 4);

SIZE(cenote_failure, 536);
AT(cenote_failure, size, 0);
AT(cenote_failure, code, 8);
AT(cenote_failure, cause, 12);
AT(cenote_failure, retry_after, 16);
AT(cenote_failure, text, 24);

SIZE(cenote_connector, 80);
AT(cenote_connector, size, 0);
AT(cenote_connector, context, 8);
AT(cenote_connector, open, 16);
AT(cenote_connector, close, 24);
AT(cenote_connector, probe, 32);
AT(cenote_connector, reset, 40);
AT(cenote_connector, before_acquire, 48);
AT(cenote_connector, before_release, 56);
AT(cenote_connector, forsake, 64);
AT(cenote_connector, end, 72);

SIZE(cenote_event, 72);
AT(cenote_event, size, 0);
AT(cenote_event, kind, 8);
AT(cenote_event, reason, 12);
AT(cenote_event, code, 16);
AT(cenote_event, breaker, 20);
AT(cenote_event, pool, 24);
AT(cenote_event, resource, 32);
AT(cenote_event, took, 40);
AT(cenote_event, cause, 48);
AT(cenote_event, text, 56);
AT(cenote_event, task, 64);

SIZE(cenote_observer, 32);
AT(cenote_observer, size, 0);
AT(cenote_observer, context, 8);
AT(cenote_observer, wants, 16);
AT(cenote_observer, on_event, 24);

SIZE(cenote_breaker_move, 32);
AT(cenote_breaker_move, size, 0);
AT(cenote_breaker_move, to, 8);
AT(cenote_breaker_move, cool_down, 16);
AT(cenote_breaker_move, probes, 24);

SIZE(cenote_breaker_report, 48);
AT(cenote_breaker_report, size, 0);
AT(cenote_breaker_report, pool, 8);
AT(cenote_breaker_report, state, 16);
AT(cenote_breaker_report, count, 24);
AT(cenote_breaker_report, at, 32);
AT(cenote_breaker_report, text, 40);

SIZE(cenote_breaker, 40);
AT(cenote_breaker, size, 0);
AT(cenote_breaker, context, 8);
AT(cenote_breaker, succeeded, 16);
AT(cenote_breaker, failed, 24);
AT(cenote_breaker, cooled_down, 32);

SIZE(cenote_threshold, 40);
AT(cenote_threshold, size, 0);
AT(cenote_threshold, failures, 8);
AT(cenote_threshold, cool_down, 16);
AT(cenote_threshold, probes, 24);
AT(cenote_threshold, successes, 32);

SIZE(cenote_options, 296);
AT(cenote_options, size, 0);
AT(cenote_options, name, 8);
AT(cenote_options, max, 16);
AT(cenote_options, min_size, 24);
AT(cenote_options, min_idle, 32);
AT(cenote_options, warm_up, 40);
AT(cenote_options, order, 44);
AT(cenote_options, fairness, 48);
AT(cenote_options, probe_on_release, 52);
AT(cenote_options, refuse_deadlock, 56);
AT(cenote_options, open_errors, 60);
AT(cenote_options, acquire_timeout, 64);
AT(cenote_options, open_timeout, 72);
AT(cenote_options, probe_timeout, 80);
AT(cenote_options, reset_timeout, 88);
AT(cenote_options, close_timeout, 96);
AT(cenote_options, opening_max, 104);
AT(cenote_options, open_rate, 112);
AT(cenote_options, open_burst, 120);
AT(cenote_options, idle_timeout, 128);
AT(cenote_options, max_lifetime, 136);
AT(cenote_options, lifetime_jitter, 144);
AT(cenote_options, max_uses, 152);
AT(cenote_options, sweep_interval, 160);
AT(cenote_options, probe_after_idle, 168);
AT(cenote_options, heartbeat, 176);
AT(cenote_options, leak_after, 184);
AT(cenote_options, bypass_for, 192);
AT(cenote_options, line_max, 200);
AT(cenote_options, head_start, 208);
AT(cenote_options, shed_target, 216);
AT(cenote_options, shed_interval, 224);
AT(cenote_options, backoff_first, 232);
AT(cenote_options, backoff_cap_waiting, 240);
AT(cenote_options, backoff_cap_idle, 248);
AT(cenote_options, seed, 256);
AT(cenote_options, observer, 264);
AT(cenote_options, breaker, 272);
AT(cenote_options, threshold, 280);
AT(cenote_options, reset_after, 288);

SIZE(cenote_acquire_options, 40);
AT(cenote_acquire_options, size, 0);
AT(cenote_acquire_options, timeout, 8);
AT(cenote_acquire_options, priority, 16);
AT(cenote_acquire_options, no_queue, 20);
AT(cenote_acquire_options, task, 24);
AT(cenote_acquire_options, leak_after, 32);

SIZE(cenote_stats, 4488);
AT(cenote_stats, size, 0);
AT(cenote_stats, state, 8);
AT(cenote_stats, breaker, 12);
AT(cenote_stats, max, 16);
AT(cenote_stats, total, 24);
AT(cenote_stats, leased, 32);
AT(cenote_stats, idle, 40);
AT(cenote_stats, opening, 48);
AT(cenote_stats, probing, 56);
AT(cenote_stats, resetting, 64);
AT(cenote_stats, closing, 72);
AT(cenote_stats, waiting, 80);
AT(cenote_stats, acquires, 88);
AT(cenote_stats, granted, 96);
AT(cenote_stats, waited, 104);
AT(cenote_stats, released, 112);
AT(cenote_stats, discarded, 120);
AT(cenote_stats, detached, 128);
AT(cenote_stats, opened, 136);
AT(cenote_stats, open_failed, 144);
AT(cenote_stats, closed, 152);
AT(cenote_stats, abandoned, 160);
AT(cenote_stats, events_lost, 168);
AT(cenote_stats, try_empty, 176);
AT(cenote_stats, leaks, 184);
AT(cenote_stats, retired, 192);
AT(cenote_stats, refused, 320);
AT(cenote_stats, wait, 448);
AT(cenote_stats, hold, 1792);
AT(cenote_stats, open, 3136);
AT(cenote_stats, refused_after_wait, 4480);

SIZE(cenote_holder, 32);
AT(cenote_holder, size, 0);
AT(cenote_holder, resource, 8);
AT(cenote_holder, held, 16);
AT(cenote_holder, task, 24);

IS(CENOTE_OK, 0);
IS(CENOTE_TIMED_OUT, 1);
IS(CENOTE_CLOSED, 2);
IS(CENOTE_UNAVAILABLE, 3);
IS(CENOTE_LINE_FULL, 4);
IS(CENOTE_SHED, 5);
IS(CENOTE_CANCELED, 6);
IS(CENOTE_OPEN_FAILED, 7);
IS(CENOTE_DEADLOCK, 8);
IS(CENOTE_EMPTY, 32);
IS(CENOTE_INVALID_ARGUMENT, 33);
IS(CENOTE_INVALID_OPTION, 34);
IS(CENOTE_INVALID_HANDLE, 35);
IS(CENOTE_STALE_HANDLE, 36);
IS(CENOTE_NO_MEMORY, 37);
IS(CENOTE_SYSTEM, 38);
IS(CENOTE_INTERNAL, 39);

IS(CENOTE_KEEP, 0);
IS(CENOTE_RESET, 1);
IS(CENOTE_DISCARD, 2);
IS(CENOTE_FINAL, 3);
IS(CENOTE_SUSPECT, 4);
IS(CENOTE_RESET_LATER, 5);

IS(CENOTE_ACTIVE, 0);
IS(CENOTE_INACTIVE, 1);
IS(CENOTE_RECOVERING, 2);

IS(CENOTE_EVENT_OPENED, 0);
IS(CENOTE_EVENT_OPEN_FAILED, 1);
IS(CENOTE_EVENT_ACQUIRED, 2);
IS(CENOTE_EVENT_RELEASED, 3);
IS(CENOTE_EVENT_DISCARDED, 4);
IS(CENOTE_EVENT_DETACHED, 5);
IS(CENOTE_EVENT_RETIRED, 6);
IS(CENOTE_EVENT_PROBE_FAILED, 7);
IS(CENOTE_EVENT_RESET_FAILED, 8);
IS(CENOTE_EVENT_CLOSED, 9);
IS(CENOTE_EVENT_EXHAUSTED, 10);
IS(CENOTE_EVENT_LOOP_BLOCKED, 11);
IS(CENOTE_EVENT_NESTED_ACQUIRE, 12);
IS(CENOTE_EVENT_LEAK_SUSPECTED, 13);
IS(CENOTE_EVENT_BREAKER_CHANGED, 14);
IS(CENOTE_EVENT_PAUSED, 15);
IS(CENOTE_EVENT_RESUMED, 16);
IS(CENOTE_EVENT_CLOSING, 17);
IS(CENOTE_EVENT_CLOSED_POOL, 18);
IS(CENOTE_EVENT_WAITED, 19);

IS(CENOTE_RETIRED_IDLE, 0);
IS(CENOTE_RETIRED_AGE, 1);
IS(CENOTE_RETIRED_USES, 2);
IS(CENOTE_RETIRED_GENERATION, 3);
IS(CENOTE_RETIRED_PROBE_FAILED, 4);
IS(CENOTE_RETIRED_RESET_FAILED, 5);
IS(CENOTE_RETIRED_REJECTED, 6);
IS(CENOTE_RETIRED_SURPLUS, 7);

IS(CENOTE_WARM_UP_BACKGROUND, 0);
IS(CENOTE_WARM_UP_WAIT, 1);
IS(CENOTE_WARM_UP_NONE, 2);

IS(CENOTE_LIFO, 0);
IS(CENOTE_FIFO, 1);

IS(CENOTE_STRICT, 0);
IS(CENOTE_BOUNDED, 1);
IS(CENOTE_TURNS, 2);
IS(CENOTE_OPEN_ERRORS_RETRY, 0);
IS(CENOTE_OPEN_ERRORS_FAIL_FAST, 1);

IS(CENOTE_PRIORITY_RESERVED, 0);
IS(CENOTE_PRIORITY_HIGH, 1);
IS(CENOTE_PRIORITY_NORMAL, 2);
IS(CENOTE_PRIORITY_LOW, 3);

IS(CENOTE_LENDING, 0);
IS(CENOTE_PAUSED, 1);
IS(CENOTE_POOL_CLOSED, 2);

IS(CENOTE_COUNT_MAX, 0);
IS(CENOTE_COUNT_TOTAL, 1);
IS(CENOTE_COUNT_LEASED, 2);
IS(CENOTE_COUNT_IDLE, 3);
IS(CENOTE_COUNT_OPENING, 4);
IS(CENOTE_COUNT_PROBING, 5);
IS(CENOTE_COUNT_RESETTING, 6);
IS(CENOTE_COUNT_CLOSING, 7);
IS(CENOTE_COUNT_WAITING, 8);
IS(CENOTE_COUNT_ACQUIRES, 9);
IS(CENOTE_COUNT_GRANTED, 10);
IS(CENOTE_COUNT_WAITED, 11);
IS(CENOTE_COUNT_RELEASED, 12);
IS(CENOTE_COUNT_DISCARDED, 13);
IS(CENOTE_COUNT_DETACHED, 14);
IS(CENOTE_COUNT_OPENED, 15);
IS(CENOTE_COUNT_OPEN_FAILED, 16);
IS(CENOTE_COUNT_CLOSED, 17);
IS(CENOTE_COUNT_ABANDONED, 18);
IS(CENOTE_COUNT_EVENTS_LOST, 19);
IS(CENOTE_COUNT_TRY_EMPTY, 20);
IS(CENOTE_COUNT_LEAKS, 21);
IS(CENOTE_COUNT_REFUSED, 22);
IS(CENOTE_COUNT_RETIRED, 23);
IS(CENOTE_COUNT_REFUSED_AFTER_WAIT, 24);

IS(CENOTE_FOREVER, INT64_MAX);
IS(CENOTE_DEFAULT_TIMEOUT, INT64_MIN);
IS(CENOTE_UNLIMITED, UINT64_MAX);
IS(CENOTE_TEXT_MAX, 512);
IS(CENOTE_BUCKETS, 168);
IS(CENOTE_REASONS_MAX, 16);

int main(void) { return 0; }

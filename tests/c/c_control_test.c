/* Statistics, control, observers and breakers of the C API. */
#include <pthread.h>

#include "check.h"

static void pauses(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease;
    CHECK_OK(cenote_pause(pool));
    cenote_stats stats = {.size = sizeof stats};
    CHECK_OK(cenote_look(pool, &stats));
    CHECK(stats.state == CENOTE_PAUSED);
    CHECK_CODE(cenote_acquire(pool, millisecond, &lease, NULL), CENOTE_TIMED_OUT);
    CHECK_OK(cenote_resume(pool));
    CHECK_OK(cenote_release(lease_from(pool)));
    end(pool, &w);
}

static void retires(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 2);
    cenote_lease lease = lease_from(pool);
    CHECK_OK(cenote_retire_all(pool));
    CHECK_OK(cenote_release(lease));
    CHECK_OK(cenote_release(lease_from(pool)));
    WAIT_UNTIL(w.closed == 1);
    cenote_stats stats = {.size = sizeof stats};
    CHECK_OK(cenote_look(pool, &stats));
    CHECK(stats.retired[CENOTE_RETIRED_GENERATION] == 1);
    CHECK(count(pool, CENOTE_COUNT_RETIRED) == 1);
    end(pool, &w);
}

static void resizes(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease one = lease_from(pool), other;
    CHECK_CODE(cenote_acquire(pool, 0, &other, NULL), CENOTE_TIMED_OUT);
    CHECK_OK(cenote_resize(pool, 2));
    other = lease_from(pool);
    CHECK_OK(cenote_release(one));
    CHECK_OK(cenote_release(other));
    CHECK_CODE(cenote_resize(pool, 0), CENOTE_INVALID_OPTION);
    CHECK(count(pool, CENOTE_COUNT_MAX) == 2);
    end(pool, &w);
}

static void moves_the_breaker_manually(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 3);
    cenote_breaker_state state;
    cenote_lease lease, other;
    CHECK_OK(cenote_breaker_now(pool, &state));
    CHECK(state == CENOTE_ACTIVE);
    CHECK_OK(cenote_release(lease_from(pool))); /* so that no open succeeds later */
    CHECK_OK(cenote_deactivate(pool));
    CHECK_OK(cenote_breaker_now(pool, &state));
    CHECK(state == CENOTE_INACTIVE);
    CHECK_CODE(cenote_acquire(pool, patience, &lease, NULL), CENOTE_UNAVAILABLE);
    int64_t wait = -1;
    CHECK_OK(cenote_retry_after(pool, &wait));
    CHECK(wait >= 0);
    CHECK_OK(cenote_recover(pool, 1));
    CHECK_OK(cenote_breaker_now(pool, &state));
    CHECK(state == CENOTE_RECOVERING);
    lease = lease_from(pool);
    CHECK_CODE(cenote_acquire(pool, patience, &other, NULL), CENOTE_UNAVAILABLE);
    CHECK_OK(cenote_release(lease));
    WAIT_UNTIL(cenote_breaker_now(pool, &state) == CENOTE_OK && state == CENOTE_ACTIVE);
    CHECK_OK(cenote_deactivate(pool));
    CHECK_OK(cenote_activate(pool));
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK_CODE(cenote_breaker_now(pool, NULL), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_retry_after(pool, NULL), CENOTE_INVALID_ARGUMENT);
    end(pool, &w);
}

static void moves_the_breaker_by_threshold(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_threshold t;
    cenote_threshold_init(&t, sizeof t);
    t.failures = 2;
    t.cool_down = CENOTE_FOREVER;
    cenote_options o = options_of(2);
    o.threshold = &t;
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    CHECK_OK(cenote_discard(lease_from(pool))); /* no failure */
    cenote_lease one = lease_from(pool), other = lease_from(pool);
    CHECK_OK(cenote_release_as(one, CENOTE_DISCARD));
    CHECK_OK(cenote_release_as(other, CENOTE_SUSPECT));
    cenote_breaker_state state = CENOTE_ACTIVE;
    WAIT_UNTIL(cenote_breaker_now(pool, &state) == CENOTE_OK && state == CENOTE_INACTIVE);
    end(pool, &w);
}

/* A strategy that opens the circuit at the first failure, for a moment, and closes it at the first
 * success. */
typedef struct judge {
    atomic_int succeeded, failed, cooled_down;
    bool nonsense;
} judge;

static int on_success(void* context, const cenote_breaker_report* what, cenote_breaker_move* go) {
    ++((judge*)context)->succeeded;
    CHECK(what->size == sizeof *what && what->count >= 1 && what->text == NULL);
    if (what->state == CENOTE_ACTIVE) return 0;
    CHECK(go->size == sizeof *go && go->cool_down == second && go->probes == 1);
    go->to = CENOTE_ACTIVE;
    return 1;
}

static int on_failure(void* context, const cenote_breaker_report* what, cenote_breaker_move* go) {
    judge* j = context;
    ++j->failed;
    CHECK(what->state <= CENOTE_RECOVERING && what->at > 0 && strcmp(what->pool, "pool") == 0);
    CHECK(what->text != NULL && strcmp(what->text, "discarded by its holder") == 0);
    go->to = j->nonsense ? (cenote_breaker_state)17 : CENOTE_INACTIVE;
    go->cool_down = millisecond;
    return 1;
}

static int on_cool_down(void* context, const cenote_breaker_report* what, cenote_breaker_move* go) {
    ++((judge*)context)->cooled_down;
    CHECK(what->state == CENOTE_INACTIVE);
    go->to = CENOTE_RECOVERING;
    return 1;
}

static void moves_the_breaker_by_a_strategy(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    judge j = {0};
    cenote_breaker strategy = {.size = sizeof strategy,
                               .context = &j,
                               .succeeded = on_success,
                               .failed = on_failure,
                               .cooled_down = on_cool_down};
    cenote_options o = options_of(2);
    o.breaker = &strategy;
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    CHECK_OK(cenote_release_as(lease_from(pool), CENOTE_DISCARD));
    WAIT_UNTIL(j.failed == 1 && j.cooled_down >= 1);
    cenote_lease lease;
    while (cenote_acquire(pool, patience, &lease, NULL) == CENOTE_UNAVAILABLE)
        sleep_for(millisecond);
    CHECK_OK(cenote_release(lease));
    cenote_breaker_state state = CENOTE_INACTIVE;
    WAIT_UNTIL(cenote_breaker_now(pool, &state) == CENOTE_OK && state == CENOTE_ACTIVE);
    /* A move to an unknown state is ignored. */
    j.nonsense = true;
    CHECK_OK(cenote_release_as(lease_from(pool), CENOTE_DISCARD));
    WAIT_UNTIL(j.failed == 2);
    CHECK_OK(cenote_release(lease_from(pool)));
    end(pool, &w);

    /* Without `cooled_down` the breaker moves to RECOVERING. */
    workshop v = {0};
    c = connector_of(&v);
    judge k = {0};
    strategy.context = &k;
    strategy.cooled_down = NULL;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    CHECK_OK(cenote_release_as(lease_from(pool), CENOTE_DISCARD));
    WAIT_UNTIL(k.failed == 1);
    while (cenote_acquire(pool, patience, &lease, NULL) == CENOTE_UNAVAILABLE)
        sleep_for(millisecond);
    CHECK_OK(cenote_release(lease));
    end(pool, &v);
}

/* The events received. */
typedef struct diary {
    atomic_int of[32];
    atomic_int cause_of_open, text_of_open, reason, code, breaker, task;
    atomic_int destroy;
    cenote_pool pool;
} diary;

static void record(void* context, const cenote_event* what) {
    diary* d = context;
    CHECK(what->size == sizeof *what);
    CHECK(what->kind <= CENOTE_EVENT_WAITED);
    CHECK(strcmp(what->pool, "watched") == 0);
    if (what->kind == CENOTE_EVENT_OPEN_FAILED) {
        d->cause_of_open = what->cause;
        d->text_of_open = strcmp(what->text, "connection refused on port 5432") == 0;
    }
    if (what->kind == CENOTE_EVENT_RETIRED) d->reason = (int)what->reason;
    if (what->kind == CENOTE_EVENT_EXHAUSTED) d->code = (int)what->code;
    if (what->kind == CENOTE_EVENT_BREAKER_CHANGED) d->breaker = (int)what->breaker;
    if (what->kind == CENOTE_EVENT_LEAK_SUSPECTED)
        d->task = what->task != NULL && strcmp(what->task, "a long one") == 0;
    if (what->kind == CENOTE_EVENT_PAUSED) d->destroy = (int)cenote_destroy(d->pool, NULL);
    ++d->of[what->kind];
}

static void reports_events(void) {
    workshop w = {0};
    w.open_says = 1;
    cenote_connector c = able_connector_of(&w);
    diary d = {.reason = -1, .destroy = -1};
    cenote_observer o = {
        .size = sizeof o, .context = &d, .wants = CENOTE_WANTS_ALL_BUT_LEASES, .on_event = record};
    cenote_options options = options_of(1);
    options.name = "watched";
    options.observer = &o;
    options.leak_after = 5 * millisecond;
    CHECK_OK(cenote_create(&c, &options, &d.pool, NULL));
    cenote_lease lease;
    cenote_acquire_options how = CENOTE_ACQUIRE_OPTIONS;
    how.timeout = 5 * millisecond;
    CHECK_CODE(cenote_acquire_with(d.pool, &how, &lease, NULL, NULL), CENOTE_TIMED_OUT);
    WAIT_UNTIL(d.code == CENOTE_TIMED_OUT);
    WAIT_UNTIL(d.of[CENOTE_EVENT_OPEN_FAILED] >= 1);
    CHECK(d.cause_of_open == 111 && d.text_of_open);
    w.open_says = 0;
    how.timeout = patience;
    how.task = "a long one";
    CHECK_OK(cenote_acquire_with(d.pool, &how, &lease, NULL, NULL));
    WAIT_UNTIL(d.of[CENOTE_EVENT_LEAK_SUSPECTED] >= 1);
    CHECK(d.task);
    CHECK(d.of[CENOTE_EVENT_WAITED] == 1);
    CHECK_OK(cenote_retire_all(d.pool));
    CHECK_OK(cenote_release(lease));
    WAIT_UNTIL(d.of[CENOTE_EVENT_RETIRED] == 1);
    CHECK(d.reason == CENOTE_RETIRED_GENERATION);
    CHECK_OK(cenote_pause(d.pool));
    WAIT_UNTIL(d.of[CENOTE_EVENT_PAUSED] == 1);
    CHECK(d.destroy == CENOTE_DEADLOCK);
    CHECK_OK(cenote_resume(d.pool));
    CHECK_OK(cenote_deactivate(d.pool));
    WAIT_UNTIL(d.of[CENOTE_EVENT_BREAKER_CHANGED] == 1);
    CHECK(d.breaker == CENOTE_INACTIVE);
    end(d.pool, &w);
    CHECK(d.of[CENOTE_EVENT_CLOSED_POOL] == 1);
    CHECK(d.of[CENOTE_EVENT_ACQUIRED] == 0 && d.of[CENOTE_EVENT_RELEASED] == 0);
}

static void reports_failed_probes_and_resets(void) {
    workshop w = {0};
    cenote_connector c = able_connector_of(&w);
    diary d = {0};
    cenote_observer o = {
        .size = sizeof o, .context = &d, .wants = CENOTE_WANTS_ALL, .on_event = record};
    cenote_options options = options_of(1);
    options.name = "watched";
    options.observer = &o;
    options.probe_after_idle = 0;
    CHECK_OK(cenote_create(&c, &options, &d.pool, NULL));
    CHECK_OK(cenote_release(lease_from(d.pool)));
    w.probe_says = 1;
    cenote_lease lease;
    CHECK_CODE(cenote_acquire(d.pool, 20 * millisecond, &lease, NULL) == CENOTE_OK
                   ? cenote_release(lease)
                   : CENOTE_OK,
               CENOTE_OK);
    WAIT_UNTIL(d.of[CENOTE_EVENT_PROBE_FAILED] >= 1);
    w.probe_says = 0;
    w.reset_says = 1;
    CHECK_OK(cenote_release_as(lease_from(d.pool), CENOTE_RESET));
    WAIT_UNTIL(d.of[CENOTE_EVENT_RESET_FAILED] == 1);
    end(d.pool, &w);
    CHECK(d.of[CENOTE_EVENT_ACQUIRED] >= 2);
    CHECK(d.of[CENOTE_EVENT_ACQUIRED] == d.of[CENOTE_EVENT_RELEASED]);
}

static void* waits(void* pool) {
    cenote_lease lease;
    if (cenote_acquire(*(cenote_pool*)pool, patience, &lease, NULL) == CENOTE_OK)
        CHECK_OK(cenote_release(lease));
    return NULL;
}

static void refuses_for_every_reason(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_options o = options_of(1);
    o.line_max = 1;
    o.refuse_deadlock = 1;
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    cenote_lease lease = lease_from(pool), none;
    /* This thread holds the only lease and waits for another. */
    CHECK_CODE(cenote_acquire(pool, patience, &none, NULL), CENOTE_DEADLOCK);
    pthread_t waiting;
    pthread_create(&waiting, NULL, waits, &pool);
    WAIT_UNTIL(count(pool, CENOTE_COUNT_WAITING) == 1);
    cenote_failure why = {.size = sizeof why};
    CHECK_CODE(cenote_acquire_with(pool, NULL, &none, NULL, &why), CENOTE_LINE_FULL);
    CHECK(why.retry_after >= 0);
    CHECK_OK(cenote_release(lease));
    pthread_join(waiting, NULL);
    CHECK(count(pool, CENOTE_COUNT_REFUSED) == 2);
    end(pool, &w);
}

static bool has_shed(cenote_pool pool) {
    cenote_stats stats = {.size = sizeof stats};
    CHECK_OK(cenote_look(pool, &stats));
    return stats.refused[CENOTE_SHED - 1] > 0;
}

/* Holds a lease until other callers have waited longer than the target. */
static void* holds_long(void* of) {
    cenote_pool pool = *(cenote_pool*)of;
    while (!has_shed(pool)) {
        cenote_lease lease;
        if (cenote_acquire(pool, patience, &lease, NULL) != CENOTE_OK) continue;
        sleep_for(10 * millisecond);
        CHECK_OK(cenote_release(lease));
    }
    return NULL;
}

static void sheds(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_options o = options_of(1);
    o.shed_target = millisecond;
    o.shed_interval = 10 * millisecond;
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    pthread_t threads[6];
    for (int i = 0; i < 6; ++i) pthread_create(&threads[i], NULL, holds_long, &pool);
    for (int i = 0; i < 6; ++i) pthread_join(threads[i], NULL);
    CHECK(has_shed(pool));
    end(pool, &w);
}

static void reads_statistics(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 4);
    cenote_lease one = lease_from(pool), other = lease_from(pool), none;
    for (int i = 0; i < 100; ++i) CHECK_OK(cenote_release(lease_from(pool)));
    CHECK_CODE(cenote_try_acquire(pool, &none, NULL) == CENOTE_OK ? cenote_release(none)
                                                                  : CENOTE_OK,
               CENOTE_OK);
    cenote_stats s = {.size = sizeof s};
    CHECK_OK(cenote_look(pool, &s));
    CHECK(s.size == sizeof s && s.state == CENOTE_LENDING && s.breaker == CENOTE_ACTIVE);
    CHECK(s.max == 4 && s.leased == 2 && s.waiting == 0);
    CHECK(s.total == s.leased + s.idle + s.opening + s.probing + s.resetting + s.closing);
    CHECK(s.granted == s.released + s.detached + s.leased);
    const struct {
        cenote_counter which;
        uint64_t value;
    } all[] = {{CENOTE_COUNT_MAX, s.max},
               {CENOTE_COUNT_TOTAL, s.total},
               {CENOTE_COUNT_LEASED, s.leased},
               {CENOTE_COUNT_IDLE, s.idle},
               {CENOTE_COUNT_OPENING, s.opening},
               {CENOTE_COUNT_PROBING, s.probing},
               {CENOTE_COUNT_RESETTING, s.resetting},
               {CENOTE_COUNT_CLOSING, s.closing},
               {CENOTE_COUNT_WAITING, s.waiting},
               {CENOTE_COUNT_ACQUIRES, s.acquires},
               {CENOTE_COUNT_GRANTED, s.granted},
               {CENOTE_COUNT_WAITED, s.waited},
               {CENOTE_COUNT_RELEASED, s.released},
               {CENOTE_COUNT_DISCARDED, s.discarded},
               {CENOTE_COUNT_DETACHED, s.detached},
               {CENOTE_COUNT_OPENED, s.opened},
               {CENOTE_COUNT_OPEN_FAILED, s.open_failed},
               {CENOTE_COUNT_CLOSED, s.closed},
               {CENOTE_COUNT_ABANDONED, s.abandoned},
               {CENOTE_COUNT_EVENTS_LOST, s.events_lost},
               {CENOTE_COUNT_TRY_EMPTY, s.try_empty},
               {CENOTE_COUNT_LEAKS, s.leaks},
               {CENOTE_COUNT_REFUSED, 0},
               {CENOTE_COUNT_RETIRED, 0},
               {CENOTE_COUNT_REFUSED_AFTER_WAIT, 0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        CHECK(count(pool, all[i].which) == all[i].value);
    uint64_t value;
    CHECK_CODE(cenote_count(pool, (cenote_counter)25, &value), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_count(pool, (cenote_counter)-1, &value), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_count(pool, CENOTE_COUNT_IDLE, NULL), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_look(pool, NULL), CENOTE_INVALID_ARGUMENT);
    s.size = 4;
    CHECK_CODE(cenote_look(pool, &s), CENOTE_INVALID_ARGUMENT);
    CHECK(cenote_quantile(s.open, 0.5) > 0);
    CHECK(cenote_quantile(s.open, 0.99) >= cenote_quantile(s.open, 0.5));
    uint64_t none_counted[CENOTE_BUCKETS] = {0};
    CHECK(cenote_quantile(none_counted, 0.5) == 0 && cenote_quantile(NULL, 0.5) == 0);
    CHECK(cenote_bucket_bound(1) > cenote_bucket_bound(0));
    CHECK(cenote_bucket_bound(100000) == cenote_bucket_bound(CENOTE_BUCKETS - 1));
    CHECK_OK(cenote_release(one));
    CHECK_OK(cenote_release(other));
    end(pool, &w);
}

static void has_a_name_and_a_text_for_everything(void) {
    const cenote_code codes[] = {CENOTE_OK,
                                 CENOTE_TIMED_OUT,
                                 CENOTE_CLOSED,
                                 CENOTE_UNAVAILABLE,
                                 CENOTE_LINE_FULL,
                                 CENOTE_SHED,
                                 CENOTE_CANCELED,
                                 CENOTE_OPEN_FAILED,
                                 CENOTE_DEADLOCK,
                                 CENOTE_EMPTY,
                                 CENOTE_INVALID_ARGUMENT,
                                 CENOTE_INVALID_OPTION,
                                 CENOTE_INVALID_HANDLE,
                                 CENOTE_STALE_HANDLE,
                                 CENOTE_NO_MEMORY,
                                 CENOTE_SYSTEM,
                                 CENOTE_INTERNAL};
    size_t n = sizeof codes / sizeof *codes;
    for (size_t i = 0; i < n; ++i)
        for (size_t j = 0; j < i; ++j) {
            CHECK(strcmp(cenote_word(codes[i]), cenote_word(codes[j])) != 0);
            CHECK(strcmp(cenote_text(codes[i]), cenote_text(codes[j])) != 0);
        }
    CHECK(strcmp(cenote_word(CENOTE_STALE_HANDLE), "stale_handle") == 0);
    CHECK(strcmp(cenote_word((cenote_code)77), "unknown") == 0);
    CHECK(strlen(cenote_text((cenote_code)-3)) > 0);
    CHECK(strcmp(cenote_event_word(CENOTE_EVENT_LEAK_SUSPECTED), "leak_suspected") == 0);
    CHECK(strcmp(cenote_event_word((cenote_event_kind)99), "unknown") == 0);
    CHECK(strcmp(cenote_retire_word(CENOTE_RETIRED_SURPLUS), "surplus") == 0);
    CHECK(strcmp(cenote_retire_word((cenote_retire_reason)99), "unknown") == 0);
    CHECK(strcmp(cenote_breaker_word(CENOTE_RECOVERING), "recovering") == 0);
    CHECK(strcmp(cenote_breaker_word((cenote_breaker_state)3), "unknown") == 0);
    CHECK(strchr(cenote_version(), '.') != NULL);
}

int main(void) {
    RUN(pauses);
    RUN(retires);
    RUN(resizes);
    RUN(moves_the_breaker_manually);
    RUN(moves_the_breaker_by_threshold);
    RUN(moves_the_breaker_by_a_strategy);
    RUN(reports_events);
    RUN(reports_failed_probes_and_resets);
    RUN(refuses_for_every_reason);
    RUN(sheds);
    RUN(reads_statistics);
    RUN(has_a_name_and_a_text_for_everything);
    return 0;
}

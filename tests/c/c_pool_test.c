/* Pools of the C API: options, failures, destruction. */
#include <pthread.h>

#include "check.h"

static void has_the_documented_defaults(void) {
    cenote_options o;
    memset(&o, 0x55, sizeof o);
    CHECK_OK(cenote_options_init(&o, sizeof o));
    CHECK(o.size == sizeof o);
    CHECK(strcmp(o.name, "pool") == 0);
    CHECK(o.max == 10 && o.min_size == 0 && o.min_idle == 0 && o.opening_max == 4);
    CHECK(o.warm_up == CENOTE_WARM_UP_BACKGROUND && o.order == CENOTE_LIFO);
    CHECK(o.fairness == CENOTE_TURNS && o.probe_on_release == 0 && o.refuse_deadlock == 0);
    CHECK(o.acquire_timeout == 5 * second && o.open_timeout == 10 * second);
    CHECK(o.probe_timeout == second && o.reset_timeout == second && o.close_timeout == second);
    CHECK(o.open_rate == CENOTE_UNLIMITED && o.open_burst == 1);
    CHECK(o.idle_timeout == 300 * second && o.max_lifetime == 1800 * second);
    CHECK(o.lifetime_jitter > 0.09 && o.lifetime_jitter < 0.11 && o.max_uses == CENOTE_UNLIMITED);
    CHECK(o.sweep_interval == second && o.probe_after_idle == 5 * second);
    CHECK(o.reset_after == 50 * millisecond);
    CHECK(o.heartbeat == CENOTE_FOREVER && o.leak_after == 30 * second);
    CHECK(o.bypass_for == millisecond && o.line_max == 10000 && o.head_start == second);
    CHECK(o.shed_target == CENOTE_FOREVER && o.shed_interval == 100 * millisecond);
    CHECK(o.backoff_first == 20 * millisecond && o.backoff_cap_waiting == 200 * millisecond);
    CHECK(o.backoff_cap_idle == 5 * second && o.seed == 0);
    CHECK(o.observer == NULL && o.breaker == NULL && o.threshold == NULL);
    CHECK(o.open_errors == CENOTE_OPEN_ERRORS_RETRY);
    CHECK_CODE(cenote_options_init(NULL, sizeof o), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_options_init(&o, 8), CENOTE_INVALID_ARGUMENT);
    cenote_threshold t;
    CHECK_OK(cenote_threshold_init(&t, sizeof t));
    CHECK(t.failures == 5 && t.cool_down == second && t.probes == 1 && t.successes == 1);
    CHECK_CODE(cenote_threshold_init(NULL, sizeof t), CENOTE_INVALID_ARGUMENT);
}

static void works_with_the_defaults(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, NULL, &pool, NULL));
    CHECK(count(pool, CENOTE_COUNT_MAX) == 10);
    CHECK_OK(cenote_release(lease_from(pool)));
    end(pool, &w);
}

static void refuses_invalid_structures(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_options o = options_of(1);
    cenote_pool pool = 5;
    cenote_failure why = {.size = sizeof why};
    CHECK_CODE(cenote_create(NULL, &o, &pool, &why), CENOTE_INVALID_ARGUMENT);
    CHECK(pool == 0 && why.code == CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_create(&c, &o, NULL, NULL), CENOTE_INVALID_ARGUMENT);
    c.size = 3;
    CHECK_CODE(cenote_create(&c, &o, &pool, NULL), CENOTE_INVALID_ARGUMENT);
    c = connector_of(&w);
    c.open = NULL;
    CHECK_CODE(cenote_create(&c, &o, &pool, &why), CENOTE_INVALID_ARGUMENT);
    CHECK_HAS(why.text, "open");
    c = connector_of(&w);
    cenote_failure nowhere = {0};
    CHECK_CODE(cenote_create(&c, &o, &pool, &nowhere), CENOTE_INVALID_ARGUMENT);
    CHECK(w.ended == 2); /* once for each valid connector */
    o.size = 3;
    CHECK_CODE(cenote_create(&c, &o, &pool, &why), CENOTE_INVALID_ARGUMENT);
    CHECK_HAS(why.text, "options");
    CHECK(w.ended == 3);
}

static void names_the_invalid_option(void) {
    cenote_options bad[10];
    const char* names[10] = {"max",      "min_size", "name",         "warm_up",
                             "order",    "fairness", "open_timeout", "lifetime_jitter",
                             "observer", "breaker"};
    for (int i = 0; i < 10; ++i) bad[i] = options_of(4);
    bad[0].max = 0;
    bad[1].min_size = 5;
    bad[2].name = NULL;
    bad[3].warm_up = (cenote_warm_up)3;
    bad[4].order = (cenote_order)-1;
    bad[5].fairness = (cenote_fairness)3;
    bad[6].open_timeout = -1;
    bad[7].lifetime_jitter = 2;
    cenote_observer deaf = {.size = sizeof deaf};
    bad[8].observer = &deaf;
    cenote_breaker dumb = {.size = sizeof dumb};
    bad[9].breaker = &dumb;
    for (int i = 0; i < 10; ++i) {
        workshop w = {0};
        cenote_connector c = connector_of(&w);
        cenote_pool pool;
        cenote_failure why = {.size = sizeof why};
        CHECK_CODE(cenote_create(&c, &bad[i], &pool, &why), CENOTE_INVALID_OPTION);
        CHECK(pool == 0 && why.code == CENOTE_INVALID_OPTION);
        CHECK_HAS(why.text, names[i]);
        CHECK(w.ended == 1 && w.opened == 0);
    }
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_threshold t;
    cenote_threshold_init(&t, sizeof t);
    cenote_options both = options_of(1);
    both.threshold = &t;
    both.breaker = &dumb;
    cenote_pool pool;
    CHECK_CODE(cenote_create(&c, &both, &pool, NULL), CENOTE_INVALID_OPTION);
    both.breaker = NULL;
    t.failures = 0;
    CHECK_CODE(cenote_create(&c, &both, &pool, NULL), CENOTE_INVALID_OPTION);
    t.size = 1;
    CHECK_CODE(cenote_create(&c, &both, &pool, NULL), CENOTE_INVALID_ARGUMENT);
    deaf.size = 1;
    CHECK_CODE(cenote_create(&c, &bad[8], &pool, NULL), CENOTE_INVALID_ARGUMENT);
    dumb.size = 1;
    CHECK_CODE(cenote_create(&c, &bad[9], &pool, NULL), CENOTE_INVALID_ARGUMENT);
}

static void opens_the_minimum_with_the_context(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_options o = options_of(4);
    o.min_size = 3;
    o.warm_up = CENOTE_WARM_UP_WAIT;
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    CHECK(w.opened == 3);
    CHECK_OK(cenote_wait_ready(pool, 0));
    end(pool, &w);

    w = (workshop){0};
    o.warm_up = CENOTE_WARM_UP_NONE;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    CHECK_OK(cenote_wait_ready(pool, patience));
    CHECK(w.opened >= 3);
    end(pool, &w);
}

static void reports_a_failed_open_to_the_creator(void) {
    workshop w = {0};
    w.open_says = CENOTE_FINAL;
    cenote_connector c = connector_of(&w);
    cenote_options o = options_of(4);
    o.min_size = 1;
    o.warm_up = CENOTE_WARM_UP_WAIT;
    cenote_pool pool = 3;
    cenote_failure why = {.size = sizeof why};
    CHECK_CODE(cenote_create(&c, &o, &pool, &why), CENOTE_OPEN_FAILED);
    CHECK(pool == 0 && why.code == CENOTE_OPEN_FAILED && why.cause == 111);
    CHECK_HAS(why.text, "connection refused on port 5432");
    CHECK(w.ended == 1);
}

static void reports_an_open_that_exceeds_its_timeout(void) {
    workshop w = {0};
    w.open_waits = true;
    cenote_connector c = connector_of(&w);
    cenote_options o = options_of(1);
    o.min_size = 1;
    o.open_timeout = 10 * millisecond;
    o.warm_up = CENOTE_WARM_UP_WAIT;
    cenote_pool pool;
    cenote_failure why = {.size = sizeof why};
    CHECK_CODE(cenote_create(&c, &o, &pool, &why), CENOTE_OPEN_FAILED);
    CHECK(why.cause == 0 && strlen(why.text) > 0);
    CHECK(w.ended == 0);
    w.open_waits = false;
    WAIT_UNTIL(w.ended == 1);
    CHECK(w.opened == w.closed);
}

/* An open that outlives its pool, and then destroys another pool. */
typedef struct survivor {
    workshop w;
    atomic_bool go_on;
    cenote_pool other;
    atomic_int destroyed;
} survivor;

static int open_and_survive(void* context, void** resource, cenote_failure* why) {
    survivor* s = context;
    while (!s->go_on) sleep_for(millisecond);
    if (s->other != 0) s->destroyed = cenote_destroy(s->other, NULL);
    return workshop_open(&s->w, resource, why);
}

static void survivor_close(void* context, void* resource) {
    workshop_close(&((survivor*)context)->w, resource);
}

static void survivor_end(void* context) { ++((survivor*)context)->w.ended; }

static void does_not_confuse_its_pool_with_another_one(void) {
    survivor s = {.destroyed = -1};
    cenote_connector c = {.size = sizeof c,
                          .context = &s,
                          .open = open_and_survive,
                          .close = survivor_close,
                          .end = survivor_end};
    cenote_options o = options_of(1);
    o.open_timeout = 5 * millisecond;
    o.opening_max = 1;
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    cenote_lease lease;
    CHECK_CODE(cenote_acquire(pool, 20 * millisecond, &lease, NULL), CENOTE_TIMED_OUT);
    CHECK_OK(cenote_destroy(pool, NULL));
    workshop v = {0};
    cenote_connector d = connector_of(&v);
    s.other = pool_of(&d, 1);
    s.go_on = true;
    WAIT_UNTIL(s.w.ended == 1);
    CHECK(s.destroyed == CENOTE_OK || s.destroyed == CENOTE_STALE_HANDLE);
    CHECK(v.ended == 1);
}

/* Whether an acquire times out with this text. The text differs before an open has ended. */
static bool times_out_saying(cenote_pool pool, const char* text, cenote_failure* why) {
    cenote_lease lease;
    cenote_acquire_options how = CENOTE_ACQUIRE_OPTIONS;
    how.timeout = 20 * millisecond;
    CHECK_CODE(cenote_acquire_with(pool, &how, &lease, NULL, why), CENOTE_TIMED_OUT);
    return strstr(why->text, text) != NULL;
}

static void reports_a_failed_open_to_a_borrower(void) {
    workshop w = {0};
    w.open_says = CENOTE_FINAL;
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease;
    cenote_failure why = {.size = sizeof why};
    CHECK_CODE(cenote_acquire_with(pool, NULL, &lease, NULL, &why), CENOTE_OPEN_FAILED);
    CHECK(why.cause == 111);
    CHECK_HAS(why.text, "connection refused on port 5432");
    CHECK_CODE(cenote_acquire(pool, patience, &lease, NULL), CENOTE_OPEN_FAILED);
    /* A temporary failure is retried until the timeout. */
    w.open_says = 99;
    WAIT_UNTIL(times_out_saying(pool, "connection refused", &why));
    CHECK(why.cause == 111);
    w.opens_nothing = true;
    w.open_says = CENOTE_KEEP;
    WAIT_UNTIL(times_out_saying(pool, "without a resource", &why));
    w.opens_nothing = false;
    CHECK_OK(cenote_release(lease_from(pool)));
    end(pool, &w);
}

static int open_says_too_much(void* context, void** resource, cenote_failure* why) {
    (void)context;
    (void)resource;
    memset(why->text, 'x', sizeof why->text); /* not terminated */
    return CENOTE_FINAL;
}

static int open_says_nothing(void* context, void** resource, cenote_failure* why) {
    (void)resource;
    why->cause = *(int*)context;
    return CENOTE_FINAL;
}

static void truncates_texts_and_has_defaults(void) {
    int cause = 42;
    cenote_connector c = {.size = sizeof c, .context = &cause, .open = open_says_too_much};
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease;
    cenote_failure why = {.size = sizeof why};
    CHECK_CODE(cenote_acquire_with(pool, NULL, &lease, NULL, &why), CENOTE_OPEN_FAILED);
    CHECK(strlen(why.text) == sizeof why.text - 1);
    CHECK_OK(cenote_destroy(pool, NULL));
    c.open = open_says_nothing;
    pool = pool_of(&c, 1);
    CHECK_CODE(cenote_acquire_with(pool, NULL, &lease, NULL, &why), CENOTE_OPEN_FAILED);
    CHECK(why.cause == 42);
    CHECK_HAS(why.text, "open failed with 42");
    CHECK_OK(cenote_destroy(pool, NULL));
}

static void never(void* context, cenote_code code, cenote_lease lease, void* resource,
                  const cenote_failure* why) {
    (void)context, (void)code, (void)lease, (void)resource, (void)why;
    abort();
}

static void is_destroyed_once(void) {
    workshop w = {0};
    cenote_connector c = able_connector_of(&w);
    cenote_pool pool = pool_of(&c, 2);
    cenote_lease lease = lease_from(pool);
    CHECK_OK(cenote_release(lease));
    end(pool, &w);
    /* Every function now reports a stale handle. */
    size_t left = 5;
    CHECK_CODE(cenote_destroy(pool, &left), CENOTE_STALE_HANDLE);
    CHECK(left == 0);
    CHECK_CODE(cenote_release(lease), CENOTE_STALE_HANDLE);
    void* resource;
    uint64_t number;
    int64_t wait;
    size_t holders;
    cenote_stats stats = {.size = sizeof stats};
    cenote_breaker_state breaker;
    cenote_request request;
    CHECK_CODE(cenote_close(pool, 0, &left), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_wait_ready(pool, 0), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_acquire(pool, 0, &lease, &resource), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_acquire_with(pool, NULL, &lease, &resource, NULL), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_try_acquire(pool, &lease, &resource), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_acquire_async(pool, NULL, never, NULL, &request), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_cancel(pool, 1), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_retire_all(pool), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_suspect_all(pool), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_resize(pool, 3), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_pause(pool), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_resume(pool), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_activate(pool), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_deactivate(pool), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_recover(pool, 1), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_breaker_now(pool, &breaker), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_retry_after(pool, &wait), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_look(pool, &stats), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_count(pool, CENOTE_COUNT_IDLE, &number), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_holders(pool, NULL, 0, &holders), CENOTE_STALE_HANDLE);
    /* Another pool reuses the entry, with another handle. */
    workshop other = {0};
    c = connector_of(&other);
    cenote_pool next = pool_of(&c, 1);
    CHECK(next != pool);
    CHECK_CODE(cenote_pause(pool), CENOTE_STALE_HANDLE);
    CHECK_OK(cenote_release(lease_from(next)));
    end(next, &other);
}

static void leaves_leases_to_their_holders(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 3);
    cenote_lease kept = lease_from(pool), dirty = lease_from(pool);
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK_OK(cenote_mark_dirty(dirty));
    void *one, *other;
    CHECK_OK(cenote_resource(kept, &one));
    CHECK_OK(cenote_resource(dirty, &other));
    size_t left = 0;
    CHECK_OK(cenote_close(pool, millisecond, &left));
    CHECK(left == 2);
    CHECK_OK(cenote_destroy(pool, &left));
    CHECK(left == 2);
    CHECK(w.opened == 3 && w.closed == 1 && w.ended == 1);
    CHECK_CODE(cenote_release(kept), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_discard(dirty), CENOTE_STALE_HANDLE);
    workshop_close(&w, one);
    workshop_close(&w, other);
}

static void* waits_for_a_lease(void* pool) {
    cenote_lease lease;
    return (void*)(intptr_t)cenote_acquire(*(cenote_pool*)pool, CENOTE_FOREVER, &lease, NULL);
}

static void* waits_for_the_end(void* pool) {
    return (void*)(intptr_t)cenote_close(*(cenote_pool*)pool, CENOTE_FOREVER, NULL);
}

static void refuses_waiters_when_destroyed(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    void* kept = keep_from(pool);
    pthread_t waiting[3];
    for (int i = 0; i < 3; ++i) pthread_create(&waiting[i], NULL, waits_for_a_lease, &pool);
    WAIT_UNTIL(count(pool, CENOTE_COUNT_WAITING) == 3);
    size_t left;
    CHECK_OK(cenote_destroy(pool, &left));
    CHECK(left == 1);
    for (int i = 0; i < 3; ++i) {
        void* code;
        pthread_join(waiting[i], &code);
        CHECK((intptr_t)code == CENOTE_CLOSED);
    }
    CHECK(w.ended == 1 && w.closed == 0);
    workshop_close(&w, kept);
}

static void does_not_wait_for_calls_that_wait_for_its_end(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    void* kept = keep_from(pool);
    pthread_t closing;
    pthread_create(&closing, NULL, waits_for_the_end, &pool);
    cenote_stats stats = {.size = sizeof stats};
    do CHECK_OK(cenote_look(pool, &stats));
    while (stats.state != CENOTE_POOL_CLOSED);
    size_t left;
    CHECK_OK(cenote_destroy(pool, &left));
    CHECK(left == 1);
    void* code;
    pthread_join(closing, &code);
    CHECK((intptr_t)code == CENOTE_OK);
    workshop_close(&w, kept);
}

static void* destroys(void* pool) {
    return (void*)(intptr_t)cenote_destroy(*(cenote_pool*)pool, NULL);
}

static void is_destroyed_by_one_of_several_threads(void) {
    for (int i = 0; i < 50; ++i) {
        workshop w = {0};
        cenote_connector c = connector_of(&w);
        cenote_pool pool = pool_of(&c, 1);
        CHECK_OK(cenote_release(lease_from(pool)));
        pthread_t threads[4];
        int succeeded = 0;
        for (int j = 0; j < 4; ++j) pthread_create(&threads[j], NULL, destroys, &pool);
        for (int j = 0; j < 4; ++j) {
            void* code;
            pthread_join(threads[j], &code);
            CHECK((intptr_t)code == CENOTE_OK || (intptr_t)code == CENOTE_STALE_HANDLE);
            succeeded += (intptr_t)code == CENOTE_OK;
        }
        CHECK(succeeded == 1 && w.ended == 1 && w.opened == w.closed);
    }
}

static void closes_gracefully(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 2);
    cenote_lease lease = lease_from(pool), none;
    CHECK_OK(cenote_close(pool, 0, NULL));
    CHECK_CODE(cenote_acquire(pool, patience, &none, NULL), CENOTE_CLOSED);
    CHECK_CODE(cenote_try_acquire(pool, &none, NULL), CENOTE_EMPTY);
    CHECK_CODE(cenote_wait_ready(pool, patience), CENOTE_CLOSED);
    CHECK_OK(cenote_release(lease));
    size_t left = 4;
    CHECK_OK(cenote_close(pool, patience, &left));
    CHECK(left == 0 && w.closed == 1);
    end(pool, &w);
}

/* A callback that tries to destroy its own pool. */
typedef struct suicide {
    workshop w;
    cenote_pool pool;
    atomic_int destroy, close, close_now;
} suicide;

static int open_and_destroy(void* context, void** resource, cenote_failure* why) {
    suicide* s = context;
    if (s->pool != 0) {
        s->destroy = cenote_destroy(s->pool, NULL);
        s->close = cenote_close(s->pool, second, NULL);
        s->close_now = cenote_close(s->pool, 0, NULL);
    }
    return workshop_open(&s->w, resource, why);
}

static void does_not_wait_for_itself(void) {
    suicide s = {.destroy = -1, .close = -1, .close_now = -1};
    cenote_connector c = {
        .size = sizeof c, .context = &s, .open = open_and_destroy, .close = workshop_close};
    cenote_options o = options_of(1);
    o.warm_up = CENOTE_WARM_UP_NONE;
    CHECK_OK(cenote_create(&c, &o, &s.pool, NULL));
    cenote_lease lease;
    CHECK_CODE(cenote_acquire(s.pool, patience, &lease, NULL), CENOTE_CLOSED);
    WAIT_UNTIL(s.close_now != -1);
    CHECK(s.destroy == CENOTE_DEADLOCK && s.close == CENOTE_DEADLOCK && s.close_now == CENOTE_OK);
    CHECK_OK(cenote_destroy(s.pool, NULL));
}

static void ends_the_context_after_a_call_that_exceeded_its_timeout(void) {
    workshop w = {0};
    w.open_waits = true;
    cenote_connector c = connector_of(&w);
    cenote_options o = options_of(1);
    o.open_timeout = 10 * millisecond;
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    cenote_lease lease;
    CHECK_CODE(cenote_acquire(pool, 50 * millisecond, &lease, NULL), CENOTE_TIMED_OUT);
    WAIT_UNTIL(count(pool, CENOTE_COUNT_ABANDONED) >= 1);
    CHECK_OK(cenote_destroy(pool, NULL));
    CHECK(w.ended == 0);
    w.open_waits = false;
    WAIT_UNTIL(w.ended == 1); /* when the calls have returned */
    CHECK(w.opened == w.closed);
}

int main(void) {
    RUN(has_the_documented_defaults);
    RUN(works_with_the_defaults);
    RUN(refuses_invalid_structures);
    RUN(names_the_invalid_option);
    RUN(opens_the_minimum_with_the_context);
    RUN(reports_a_failed_open_to_the_creator);
    if (!watched_by_tsan) RUN(reports_an_open_that_exceeds_its_timeout);
    RUN(does_not_confuse_its_pool_with_another_one);
    RUN(reports_a_failed_open_to_a_borrower);
    RUN(truncates_texts_and_has_defaults);
    RUN(is_destroyed_once);
    RUN(leaves_leases_to_their_holders);
    RUN(refuses_waiters_when_destroyed);
    RUN(does_not_wait_for_calls_that_wait_for_its_end);
    RUN(is_destroyed_by_one_of_several_threads);
    RUN(closes_gracefully);
    RUN(does_not_wait_for_itself);
    RUN(ends_the_context_after_a_call_that_exceeded_its_timeout);
    return 0;
}

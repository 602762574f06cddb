/* Leases of the C API: acquire, release, invalid handles. */
#include <pthread.h>

#include "check.h"

static void lends_what_open_has_made(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 2);
    cenote_lease lease;
    void* resource;
    CHECK_OK(cenote_acquire(pool, CENOTE_DEFAULT_TIMEOUT, &lease, &resource));
    CHECK(((thing*)resource)->number == 1);
    void* again = NULL;
    CHECK_OK(cenote_resource(lease, &again));
    CHECK(again == resource);
    CHECK(count(pool, CENOTE_COUNT_LEASED) == 1);
    CHECK_OK(cenote_release(lease));
    /* The output `resource` is optional. */
    CHECK_OK(cenote_acquire(pool, 0, &lease, NULL));
    CHECK_OK(cenote_release(lease));
    CHECK(count(pool, CENOTE_COUNT_LEASED) == 0);
    CHECK(w.opened == 1);
    end(pool, &w);
}

static void never_reuses_a_handle(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease last = 0;
    for (int i = 0; i < 1000; ++i) {
        cenote_lease lease = lease_from(pool);
        CHECK(lease > last);
        last = lease;
        CHECK_OK(cenote_release(lease));
    }
    end(pool, &w);
}

static void detects_a_second_release(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease first = lease_from(pool);
    CHECK_OK(cenote_release(first));
    CHECK_CODE(cenote_release(first), CENOTE_STALE_HANDLE);
    /* The resource now belongs to another lease, which must not be affected. */
    cenote_lease next = lease_from(pool);
    void* resource = &w;
    CHECK_CODE(cenote_release(first), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_discard(first), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_mark_dirty(first), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_release_as(first, CENOTE_SUSPECT), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_release_as(first, CENOTE_RESET), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_resource(first, &resource), CENOTE_STALE_HANDLE);
    CHECK(resource == NULL);
    CHECK_CODE(cenote_detach(first, &resource), CENOTE_STALE_HANDLE);
    CHECK(resource == NULL);
    CHECK_OK(cenote_resource(next, &resource));
    CHECK(((thing*)resource)->number == 1);
    CHECK_OK(cenote_release(next));
    CHECK(w.closed == 0);
    end(pool, &w);
}

static void detects_invalid_handles(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease = lease_from(pool);
    void* resource;
    const cenote_lease foreign[] = {0,
                                    1,
                                    UINT64_MAX,
                                    lease + (UINT64_C(1) << 24), /* the next generation */
                                    lease | 0xffffff,            /* no such index */
                                    lease ^ (UINT64_C(3) << 62), /* another kind */
                                    pool};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; ++i) {
        CHECK_CODE(cenote_release(foreign[i]), CENOTE_INVALID_HANDLE);
        CHECK_CODE(cenote_discard(foreign[i]), CENOTE_INVALID_HANDLE);
        CHECK_CODE(cenote_mark_dirty(foreign[i]), CENOTE_INVALID_HANDLE);
        CHECK_CODE(cenote_release_as(foreign[i], CENOTE_KEEP), CENOTE_INVALID_HANDLE);
        CHECK_CODE(cenote_resource(foreign[i], &resource), CENOTE_INVALID_HANDLE);
        CHECK_CODE(cenote_detach(foreign[i], &resource), CENOTE_INVALID_HANDLE);
    }
    const cenote_pool no_pools[] = {
        0, 1, UINT64_MAX, lease, pool + (UINT64_C(1) << 24), pool | 0xffffff};
    for (size_t i = 0; i < sizeof no_pools / sizeof *no_pools; ++i) {
        cenote_lease none = 7;
        CHECK_CODE(cenote_acquire(no_pools[i], 0, &none, &resource), CENOTE_INVALID_HANDLE);
        CHECK(none == 0 && resource == NULL);
        CHECK_CODE(cenote_try_acquire(no_pools[i], &none, &resource), CENOTE_INVALID_HANDLE);
        CHECK_CODE(cenote_acquire_with(no_pools[i], NULL, &none, &resource, NULL),
                   CENOTE_INVALID_HANDLE);
        CHECK_CODE(cenote_destroy(no_pools[i], NULL), CENOTE_INVALID_HANDLE);
        CHECK_CODE(cenote_close(no_pools[i], 0, NULL), CENOTE_INVALID_HANDLE);
        CHECK_CODE(cenote_pause(no_pools[i]), CENOTE_INVALID_HANDLE);
    }
    CHECK_OK(cenote_release(lease));
    end(pool, &w);
}

static void refuses_null_pointers(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease = lease_from(pool);
    void* resource;
    CHECK_CODE(cenote_acquire(pool, 0, NULL, &resource), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_try_acquire(pool, NULL, NULL), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_acquire_with(pool, NULL, NULL, NULL, NULL), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_resource(lease, NULL), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_detach(lease, NULL), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_release_as(lease, (cenote_verdict)77), CENOTE_INVALID_ARGUMENT);
    CHECK_OK(cenote_release(lease));
    end(pool, &w);
}

static void discards(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    CHECK_OK(cenote_discard(lease_from(pool)));
    cenote_lease lease = lease_from(pool);
    void* resource;
    CHECK_OK(cenote_resource(lease, &resource));
    CHECK(((thing*)resource)->number == 2);
    CHECK(w.closed == 1);
    CHECK_OK(cenote_release_as(lease, CENOTE_DISCARD));
    CHECK_OK(cenote_release_as(lease_from(pool), CENOTE_FINAL));
    CHECK_OK(cenote_release_as(lease_from(pool), CENOTE_KEEP));
    CHECK(count(pool, CENOTE_COUNT_DISCARDED) == 3);
    CHECK(w.opened == 4);
    end(pool, &w);
}

static void resets_what_is_dirty(void) {
    workshop w = {0};
    cenote_connector c = able_connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease = lease_from(pool);
    CHECK_OK(cenote_mark_dirty(lease));
    CHECK_OK(cenote_mark_dirty(lease));
    CHECK_OK(cenote_release(lease));
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(w.reset == 1);
    CHECK_OK(cenote_release_as(lease_from(pool), CENOTE_RESET));
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(w.reset == 2);
    CHECK(w.closed == 0);
    w.reset_says = 1;
    lease = lease_from(pool);
    CHECK_OK(cenote_mark_dirty(lease));
    CHECK_OK(cenote_release(lease));
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(w.closed == 1);
    w.reset_says = 0;
    end(pool, &w);

    /* Without `reset` the resource is closed. */
    workshop plain = {0};
    c = connector_of(&plain);
    pool = pool_of(&c, 1);
    CHECK_OK(cenote_release_as(lease_from(pool), CENOTE_RESET));
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(plain.opened == 2 && plain.closed == 1);
    end(pool, &plain);
}

static void calls_before_acquire_and_before_release(void) {
    workshop w = {0};
    cenote_connector c = able_connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(w.before_acquire == 1 && w.before_release == 1);
    w.before_release_says = CENOTE_RESET;
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(w.reset >= 1);
    w.before_release_says = 4711; /* not one of the verdicts */
    CHECK_OK(cenote_release(lease_from(pool)));
    w.before_release_says = CENOTE_KEEP;
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(w.opened == 2 && w.closed == 1);
    w.before_acquire_says = 1;
    cenote_lease lease;
    CHECK_CODE(cenote_acquire(pool, 20 * millisecond, &lease, NULL), CENOTE_TIMED_OUT);
    w.before_acquire_says = 0;
    CHECK_OK(cenote_release(lease_from(pool)));
    end(pool, &w);
}

static void resets_later_when_idle(void) {
    workshop w = {0};
    cenote_connector c = able_connector_of(&w);
    cenote_options o = options_of(1);
    o.reset_after = 200 * millisecond;
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    w.before_release_says = CENOTE_RESET_LATER;
    for (int i = 0; i < 3; ++i) CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(w.opened == 1);
    WAIT_UNTIL(w.reset >= 1);
    w.before_release_says = CENOTE_KEEP;
    CHECK_OK(cenote_release_as(lease_from(pool), CENOTE_RESET_LATER));
    WAIT_UNTIL(w.reset >= 2);
    CHECK(w.closed == 0);
    end(pool, &w);

    /* Without `reset` the resource is closed. */
    workshop plain = {0};
    c = able_connector_of(&plain);
    c.reset = NULL;
    pool = pool_of(&c, 1);
    plain.before_release_says = CENOTE_RESET_LATER;
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(plain.opened == 2);
    end(pool, &plain);
}

static void suspects(void) {
    workshop w = {0};
    cenote_connector c = able_connector_of(&w);
    cenote_pool pool = pool_of(&c, 2);
    cenote_lease one = lease_from(pool), other = lease_from(pool);
    CHECK_OK(cenote_release(other));
    int before = w.probed;
    CHECK_OK(cenote_release_as(one, CENOTE_SUSPECT));
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(w.probed > before);
    before = w.probed;
    CHECK_OK(cenote_suspect_all(pool));
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(w.probed > before);
    end(pool, &w);
}

static void detaches(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease = lease_from(pool);
    void* mine;
    CHECK_OK(cenote_detach(lease, &mine));
    CHECK(((thing*)mine)->number == 1);
    CHECK_CODE(cenote_release(lease), CENOTE_STALE_HANDLE);
    CHECK_OK(cenote_release(lease_from(pool)));
    CHECK(count(pool, CENOTE_COUNT_DETACHED) == 1);
    CHECK_OK(cenote_destroy(pool, NULL));
    CHECK(w.opened == 2 && w.closed == 1);
    workshop_close(&w, mine);
}

static void tries_without_waiting(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease, none;
    void* resource;
    while (cenote_try_acquire(pool, &lease, &resource) == CENOTE_EMPTY) sleep_for(millisecond);
    CHECK(resource != NULL);
    CHECK_CODE(cenote_try_acquire(pool, &none, &resource), CENOTE_EMPTY);
    CHECK(none == 0 && resource == NULL);
    CHECK_CODE(cenote_acquire(pool, 0, &none, NULL), CENOTE_TIMED_OUT);
    CHECK_CODE(cenote_acquire(pool, -5, &none, NULL), CENOTE_TIMED_OUT);
    CHECK_OK(cenote_release(lease));
    CHECK_OK(cenote_try_acquire(pool, &lease, NULL));
    CHECK_OK(cenote_release(lease));
    end(pool, &w);
}

static void names_the_holders_in_a_timeout(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_options o = options_of(1);
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    cenote_acquire_options how = CENOTE_ACQUIRE_OPTIONS;
    how.task = CENOTE_HERE;
    cenote_lease lease, none = 9;
    CHECK_OK(cenote_acquire_with(pool, &how, &lease, NULL, NULL));
    cenote_failure why = {.size = sizeof why};
    how.timeout = millisecond;
    void* resource = &w;
    CHECK_CODE(cenote_acquire_with(pool, &how, &none, &resource, &why), CENOTE_TIMED_OUT);
    CHECK(none == 0 && resource == NULL);
    CHECK(why.code == CENOTE_TIMED_OUT && why.size == sizeof why);
    CHECK_HAS(why.text, "1 of 1 leased (unknown call site \"");
    CHECK_HAS(why.text, "c_lease_test.c");
    /* Without an output for the failure. */
    CHECK_CODE(cenote_acquire_with(pool, &how, &none, NULL, NULL), CENOTE_TIMED_OUT);
    cenote_holder holders[2] = {{.size = sizeof *holders}, {.size = sizeof *holders}};
    size_t held = 0;
    CHECK_OK(cenote_holders(pool, holders, 2, &held));
    CHECK(held == 1 && holders[0].resource == 1);
    CHECK_HAS(holders[0].task, "c_lease_test.c");
    CHECK_OK(cenote_holders(pool, NULL, 0, &held));
    CHECK(held == 1);
    CHECK_CODE(cenote_holders(pool, NULL, 2, &held), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_holders(pool, holders, 2, NULL), CENOTE_INVALID_ARGUMENT);
    holders[0].size = 1;
    CHECK_CODE(cenote_holders(pool, holders, 2, &held), CENOTE_INVALID_ARGUMENT);
    CHECK_OK(cenote_release(lease));
    end(pool, &w);
}

static void does_not_queue_with_no_queue(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_acquire_options how = CENOTE_ACQUIRE_OPTIONS;
    how.no_queue = 1;
    cenote_lease lease, none;
    CHECK_OK(cenote_acquire_with(pool, &how, &lease, NULL, NULL)); /* opened for it */
    CHECK_CODE(cenote_acquire_with(pool, &how, &none, NULL, NULL), CENOTE_LINE_FULL);
    CHECK_OK(cenote_release(lease));
    CHECK_OK(cenote_acquire_with(pool, &how, &lease, NULL, NULL));
    CHECK_OK(cenote_release(lease));
    end(pool, &w);
}

static void refuses_invalid_acquire_options(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease;
    cenote_acquire_options how = CENOTE_ACQUIRE_OPTIONS;
    how.priority = (cenote_priority)9;
    CHECK_CODE(cenote_acquire_with(pool, &how, &lease, NULL, NULL), CENOTE_INVALID_ARGUMENT);
    cenote_acquire_options nothing = {0};
    CHECK_CODE(cenote_acquire_with(pool, &nothing, &lease, NULL, NULL), CENOTE_INVALID_ARGUMENT);
    cenote_failure nowhere = {0};
    CHECK_CODE(cenote_acquire_with(pool, NULL, &lease, NULL, &nowhere), CENOTE_INVALID_ARGUMENT);
    cenote_failure why = {.size = sizeof why};
    CHECK_CODE(cenote_acquire_with(1, NULL, &lease, NULL, &why), CENOTE_INVALID_HANDLE);
    CHECK(why.code == CENOTE_INVALID_HANDLE && strlen(why.text) > 0);
    end(pool, &w);
}

/* A program compiled with a later header: unknown members must be zero. */
static void accepts_larger_structures_of_later_programs(void) {
    workshop w = {0};
    struct {
        cenote_acquire_options known;
        uint64_t later;
    } how = {CENOTE_ACQUIRE_OPTIONS, 0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    cenote_lease lease;
    how.known.size = sizeof how;
    CHECK_OK(cenote_acquire_with(pool, &how.known, &lease, NULL, NULL));
    CHECK_OK(cenote_release(lease));
    how.later = 1;
    CHECK_CODE(cenote_acquire_with(pool, &how.known, &lease, NULL, NULL), CENOTE_INVALID_ARGUMENT);
    struct {
        cenote_stats known;
        uint64_t later;
    } stats = {.known = {.size = sizeof stats}, .later = 5};
    CHECK_OK(cenote_look(pool, &stats.known));
    CHECK(stats.known.size == sizeof stats && stats.later == 0 && stats.known.max == 1);
    end(pool, &w);
}

typedef struct crowd {
    cenote_pool pool;
    atomic_int errors;
} crowd;

static void* borrow_often(void* of) {
    crowd* all = of;
    for (int i = 0; i < 2000; ++i) {
        cenote_lease lease;
        void* resource;
        if (cenote_acquire(all->pool, patience, &lease, &resource) != CENOTE_OK) {
            ++all->errors;
            continue;
        }
        thing* t = resource;
        CHECK(++t->holders == 1);
        CHECK(--t->holders == 0);
        CHECK_OK(cenote_release(lease));
    }
    return NULL;
}

static void serves_threads_one_at_a_time(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    crowd all = {.pool = pool_of(&c, 3)};
    pthread_t threads[8];
    for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, borrow_often, &all);
    for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
    CHECK(all.errors == 0);
    CHECK(w.opened <= 3);
    CHECK(count(all.pool, CENOTE_COUNT_GRANTED) == 8 * 2000);
    CHECK(count(all.pool, CENOTE_COUNT_RELEASED) == 8 * 2000);
    end(all.pool, &w);
}

int main(void) {
    RUN(lends_what_open_has_made);
    RUN(never_reuses_a_handle);
    RUN(detects_a_second_release);
    RUN(detects_invalid_handles);
    RUN(refuses_null_pointers);
    RUN(discards);
    RUN(resets_what_is_dirty);
    RUN(resets_later_when_idle);
    RUN(calls_before_acquire_and_before_release);
    RUN(suspects);
    RUN(detaches);
    RUN(tries_without_waiting);
    RUN(names_the_holders_in_a_timeout);
    RUN(does_not_queue_with_no_queue);
    RUN(refuses_invalid_acquire_options);
    RUN(accepts_larger_structures_of_later_programs);
    RUN(serves_threads_one_at_a_time);
    return 0;
}

/* Asynchronous acquires. */
#include <pthread.h>

#include "check.h"

/* The result of a request. */
typedef struct outcome {
    atomic_int calls;
    cenote_code code;
    cenote_lease lease;
    void* resource;
    int32_t cause;
    char text[CENOTE_TEXT_MAX];
} outcome;

static void note(void* context, cenote_code code, cenote_lease lease, void* resource,
                 const cenote_failure* why) {
    outcome* o = context;
    o->code = code;
    o->lease = lease;
    o->resource = resource;
    CHECK((code == CENOTE_OK) == (why == NULL));
    CHECK((code == CENOTE_OK) == (lease != 0));
    CHECK((code == CENOTE_OK) == (resource != NULL));
    if (why != NULL) {
        CHECK(why->code == code);
        o->cause = why->cause;
        strcpy(o->text, why->text);
    }
    ++o->calls;
}

static void gets_an_idle_resource_or_waits(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    outcome first = {0}, next = {0};
    cenote_request request = 0, later = 0;
    CHECK_OK(cenote_acquire_async(pool, NULL, note, &first, &request));
    CHECK(request != 0);
    WAIT_UNTIL(first.calls == 1);
    CHECK_CODE(first.code, CENOTE_OK);
    CHECK(((thing*)first.resource)->number == 1);
    CHECK_OK(cenote_acquire_async(pool, NULL, note, &next, &later));
    CHECK(later != request);
    CHECK(next.calls == 0);
    CHECK_OK(cenote_release(first.lease));
    CHECK(next.calls == 1); /* on the thread that releases */
    CHECK(next.resource == first.resource);
    CHECK_OK(cenote_release(next.lease));
    CHECK_OK(cenote_acquire_async(pool, NULL, note, &first, NULL));
    WAIT_UNTIL(first.calls == 2);
    CHECK_OK(cenote_release(first.lease));
    end(pool, &w);
}

static void cancels(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1), elsewhere;
    workshop other = {0};
    cenote_connector d = connector_of(&other);
    elsewhere = pool_of(&d, 1);
    cenote_lease lease = lease_from(pool);
    outcome o = {0};
    cenote_request request;
    CHECK_OK(cenote_acquire_async(pool, NULL, note, &o, &request));
    /* Neither an invalid handle nor one of another pool. */
    CHECK_CODE(cenote_cancel(pool, 0), CENOTE_INVALID_HANDLE);
    CHECK_CODE(cenote_cancel(pool, lease), CENOTE_INVALID_HANDLE);
    CHECK_CODE(cenote_cancel(pool, request + 1), CENOTE_INVALID_HANDLE);
    CHECK_CODE(cenote_cancel(elsewhere, request), CENOTE_STALE_HANDLE);
    CHECK_CODE(cenote_cancel(0, request), CENOTE_INVALID_HANDLE);
    CHECK(o.calls == 0);
    CHECK_OK(cenote_cancel(pool, request));
    CHECK(o.calls == 1);
    CHECK_CODE(o.code, CENOTE_CANCELED);
    CHECK_CODE(cenote_cancel(pool, request), CENOTE_STALE_HANDLE);
    CHECK_OK(cenote_release(lease));
    end(pool, &w);
    end(elsewhere, &other);
}

typedef struct itself {
    cenote_pool pool;
    cenote_request request;
    cenote_code code;
    int calls;
} itself;

static void cancel_itself(void* context, cenote_code code, cenote_lease lease, void* resource,
                          const cenote_failure* why) {
    itself* i = context;
    (void)resource;
    (void)why;
    CHECK_CODE(code, CENOTE_OK);
    i->code = cenote_cancel(i->pool, i->request);
    CHECK_OK(cenote_release(lease));
    ++i->calls;
}

static void cannot_cancel_itself_in_its_callback(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    itself i = {.pool = pool_of(&c, 1)};
    cenote_lease lease = lease_from(i.pool);
    CHECK_OK(cenote_acquire_async(i.pool, NULL, cancel_itself, &i, &i.request));
    CHECK_OK(cenote_release(lease));
    CHECK(i.calls == 1);
    CHECK_CODE(i.code, CENOTE_STALE_HANDLE);
    end(i.pool, &w);
}

static void reports_failures(void) {
    workshop w = {0};
    w.open_says = CENOTE_FINAL;
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    outcome o = {0};
    CHECK_OK(cenote_acquire_async(pool, NULL, note, &o, NULL));
    WAIT_UNTIL(o.calls == 1);
    CHECK_CODE(o.code, CENOTE_OPEN_FAILED);
    CHECK(o.cause == 111);
    CHECK_HAS(o.text, "connection refused");
    w.open_says = CENOTE_DISCARD;
    cenote_acquire_options how = CENOTE_ACQUIRE_OPTIONS;
    how.timeout = 5 * millisecond;
    CHECK_OK(cenote_acquire_async(pool, &how, note, &o, NULL));
    WAIT_UNTIL(o.calls == 2);
    CHECK_CODE(o.code, CENOTE_TIMED_OUT);
    w.open_says = CENOTE_KEEP;
    how.priority = (cenote_priority)-1;
    CHECK_CODE(cenote_acquire_async(pool, &how, note, &o, NULL), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_acquire_async(pool, NULL, NULL, &o, NULL), CENOTE_INVALID_ARGUMENT);
    CHECK_CODE(cenote_acquire_async(3, NULL, note, &o, NULL), CENOTE_INVALID_HANDLE);
    CHECK(o.calls == 2);
    end(pool, &w);
}

static void is_refused_when_the_pool_ends(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    cenote_pool pool = pool_of(&c, 1);
    void* kept = keep_from(pool);
    outcome waiting[3] = {0};
    for (int i = 0; i < 3; ++i) CHECK_OK(cenote_acquire_async(pool, NULL, note, &waiting[i], NULL));
    size_t left;
    CHECK_OK(cenote_destroy(pool, &left));
    CHECK(left == 1);
    for (int i = 0; i < 3; ++i) {
        CHECK(waiting[i].calls == 1);
        CHECK_CODE(waiting[i].code, CENOTE_CLOSED);
    }
    workshop_close(&w, kept);
}

/* Acquires again from its callback, many times, without growing the stack. */
typedef struct relay {
    cenote_pool pool;
    atomic_int left;
    atomic_int inside;
    int destroy;
} relay;

static void run_on(void* context, cenote_code code, cenote_lease lease, void* resource,
                   const cenote_failure* why) {
    relay* r = context;
    (void)why;
    CHECK_CODE(code, CENOTE_OK);
    CHECK(((thing*)resource)->number == 1);
    CHECK(++r->inside == 1); /* one at a time on a thread */
    r->destroy = cenote_destroy(r->pool, NULL);
    if (r->left > 1) CHECK_OK(cenote_acquire_async(r->pool, NULL, run_on, r, NULL));
    CHECK_OK(cenote_release(lease));
    --r->inside;
    --r->left;
}

static void may_acquire_again_from_its_callback(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    relay r = {.pool = pool_of(&c, 1), .left = 100000};
    CHECK_OK(cenote_acquire_async(r.pool, NULL, run_on, &r, NULL));
    WAIT_UNTIL(r.left == 0);
    CHECK(r.destroy == CENOTE_DEADLOCK);
    end(r.pool, &w);
}

static void release_first(void* context, cenote_code code, cenote_lease lease, void* resource,
                          const cenote_failure* why) {
    relay* r = context;
    (void)why;
    (void)resource;
    CHECK_CODE(code, CENOTE_OK);
    CHECK(++r->inside == 1);
    CHECK_OK(cenote_release(lease));
    /* A resource is ready: granted at once, the callback comes later. */
    if (r->left > 1) CHECK_OK(cenote_acquire_async(r->pool, NULL, release_first, r, NULL));
    --r->inside;
    --r->left;
}

static void does_not_call_back_within_a_callback(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    relay r = {.pool = pool_of(&c, 1), .left = 100000};
    CHECK_OK(cenote_release(lease_from(r.pool)));
    CHECK_OK(cenote_acquire_async(r.pool, NULL, release_first, &r, NULL));
    WAIT_UNTIL(r.left == 0);
    end(r.pool, &w);
}

typedef struct storm {
    cenote_pool pool;
    atomic_int answered, granted, canceled;
} storm;

static void count_and_release(void* context, cenote_code code, cenote_lease lease, void* resource,
                              const cenote_failure* why) {
    storm* s = context;
    (void)resource;
    (void)why;
    if (code == CENOTE_OK) {
        ++s->granted;
        CHECK_OK(cenote_release(lease));
    } else {
        CHECK_CODE(code, CENOTE_CANCELED);
        ++s->canceled;
    }
    ++s->answered;
}

static void* ask_and_cancel(void* of) {
    storm* s = of;
    for (int i = 0; i < 3000; ++i) {
        cenote_request request;
        CHECK_OK(cenote_acquire_async(s->pool, NULL, count_and_release, s, &request));
        if (i % 3 == 0) {
            cenote_code code = cenote_cancel(s->pool, request);
            CHECK(code == CENOTE_OK || code == CENOTE_STALE_HANDLE);
        }
    }
    return NULL;
}

static void calls_every_callback_once(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    storm s = {.pool = pool_of(&c, 2)};
    pthread_t threads[4];
    for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, ask_and_cancel, &s);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
    WAIT_UNTIL(s.answered == 4 * 3000);
    CHECK(s.granted + s.canceled == s.answered);
    WAIT_UNTIL(count(s.pool, CENOTE_COUNT_LEASED) == 0);
    CHECK(count(s.pool, CENOTE_COUNT_GRANTED) == (uint64_t)s.granted);
    end(s.pool, &w);
    CHECK(s.answered == 4 * 3000);
}

/* Destroys a pool with waiters from a callback of another pool. */
typedef struct executioner {
    cenote_pool victim;
    size_t left;
    int done;
} executioner;

static void destroy_another(void* context, cenote_code code, cenote_lease lease, void* resource,
                            const cenote_failure* why) {
    executioner* e = context;
    (void)resource;
    (void)why;
    CHECK_CODE(code, CENOTE_OK);
    CHECK_OK(cenote_destroy(e->victim, &e->left));
    CHECK_OK(cenote_release(lease));
    e->done = 1;
}

static void may_destroy_another_pool_from_its_callback(bool at_once) {
    workshop v = {0}, w = {0};
    cenote_connector c = connector_of(&v), d = connector_of(&w);
    executioner e = {.victim = pool_of(&c, 1)};
    cenote_pool pool = pool_of(&d, 1);
    void* kept = keep_from(e.victim);
    outcome waiting[3] = {0};
    for (int i = 0; i < 3; ++i)
        CHECK_OK(cenote_acquire_async(e.victim, NULL, note, &waiting[i], NULL));
    cenote_lease lease = lease_from(pool);
    if (at_once) CHECK_OK(cenote_release(lease));
    CHECK_OK(cenote_acquire_async(pool, NULL, destroy_another, &e, NULL));
    if (!at_once) CHECK_OK(cenote_release(lease));
    CHECK(e.done && e.left == 1);
    for (int i = 0; i < 3; ++i) {
        CHECK(waiting[i].calls == 1);
        CHECK_CODE(waiting[i].code, CENOTE_CLOSED);
    }
    workshop_close(&v, kept);
    end(pool, &w);
}

static void may_destroy_another_pool_after_an_immediate_lease(void) {
    may_destroy_another_pool_from_its_callback(true);
}

static void may_destroy_another_pool_after_a_wait(void) {
    may_destroy_another_pool_from_its_callback(false);
}

/* A callback of one pool acquires from another pool, whose callback destroys the first pool. */
typedef struct chain {
    cenote_pool first, second;
    cenote_code destroyed;
    bool done;
} chain;

static void destroy_the_first(void* context, cenote_code code, cenote_lease lease, void* resource,
                              const cenote_failure* why) {
    chain* c = context;
    (void)resource;
    (void)why;
    CHECK_CODE(code, CENOTE_OK);
    CHECK_OK(cenote_release(lease));
    c->destroyed = cenote_destroy(c->first, NULL);
    c->done = true;
}

static void acquire_from_the_second(void* context, cenote_code code, cenote_lease lease,
                                    void* resource, const cenote_failure* why) {
    chain* c = context;
    (void)resource;
    (void)why;
    CHECK(code == CENOTE_OK || code == CENOTE_CANCELED);
    if (code == CENOTE_OK) CHECK_OK(cenote_release(lease));
    CHECK_OK(cenote_acquire_async(c->second, NULL, destroy_the_first, c, NULL));
}

static void may_destroy_the_pool_of_an_outer_callback(void) {
    for (int cancels = 0; cancels < 2; ++cancels) {
        workshop v = {0}, w = {0};
        cenote_connector a = connector_of(&v), b = connector_of(&w);
        chain c = {.first = pool_of(&a, 1), .second = pool_of(&b, 1), .destroyed = -1};
        CHECK_OK(cenote_release(lease_from(c.second)));
        cenote_lease lease = lease_from(c.first);
        if (!cancels) CHECK_OK(cenote_release(lease));
        cenote_request request;
        CHECK_OK(cenote_acquire_async(c.first, NULL, acquire_from_the_second, &c, &request));
        void* kept = NULL;
        if (cancels) {
            CHECK_OK(cenote_resource(lease, &kept));
            CHECK_OK(cenote_cancel(c.first, request));
        }
        CHECK(c.done);
        CHECK_CODE(c.destroyed, CENOTE_OK);
        CHECK(v.ended == 1);
        if (kept != NULL) workshop_close(&v, kept);
        end(c.second, &w);
    }
}

/* A callback closes another pool that has granted a lease to a request queued on this thread. */
static void take_and_close(void* context, cenote_code code, cenote_lease lease, void* resource,
                           const cenote_failure* why) {
    chain* c = context;
    (void)resource;
    (void)why;
    CHECK_CODE(code, CENOTE_OK);
    CHECK_OK(cenote_release(lease));
    storm s = {.pool = c->first};
    CHECK_OK(cenote_acquire_async(c->first, NULL, count_and_release, &s, NULL));
    CHECK(s.answered == 0);
    size_t left = 9;
    CHECK_OK(cenote_close(c->first, patience, &left));
    CHECK(left == 0 && s.granted == 1);
    c->done = true;
}

static void may_close_another_pool_from_its_callback(void) {
    workshop v = {0}, w = {0};
    cenote_connector a = connector_of(&v), b = connector_of(&w);
    chain c = {.first = pool_of(&a, 1), .second = pool_of(&b, 1)};
    CHECK_OK(cenote_release(lease_from(c.first)));
    CHECK_OK(cenote_release(lease_from(c.second)));
    CHECK_OK(cenote_acquire_async(c.second, NULL, take_and_close, &c, NULL));
    CHECK(c.done);
    end(c.first, &v);
    end(c.second, &w);
}

/* Inside a call on the pool: DEADLOCK, instead of waiting for itself. */
static void refuses_to_wait_for_itself(void) {
    workshop v = {0};
    cenote_connector a = connector_of(&v);
    chain c = {.first = pool_of(&a, 1), .destroyed = -1};
    c.second = c.first;
    CHECK_OK(cenote_pause(c.first));
    CHECK_OK(cenote_acquire_async(c.first, NULL, destroy_the_first, &c, NULL));
    CHECK_OK(cenote_resume(c.first));
    WAIT_UNTIL(c.done);
    CHECK_CODE(c.destroyed, CENOTE_DEADLOCK);
    end(c.first, &v);
}

int main(void) {
    RUN(gets_an_idle_resource_or_waits);
    RUN(cancels);
    RUN(cannot_cancel_itself_in_its_callback);
    RUN(reports_failures);
    RUN(is_refused_when_the_pool_ends);
    RUN(may_acquire_again_from_its_callback);
    RUN(does_not_call_back_within_a_callback);
    RUN(may_destroy_another_pool_after_an_immediate_lease);
    RUN(may_destroy_another_pool_after_a_wait);
    RUN(may_destroy_the_pool_of_an_outer_callback);
    RUN(may_close_another_pool_from_its_callback);
    RUN(refuses_to_wait_for_itself);
    RUN(calls_every_callback_once);
    return 0;
}

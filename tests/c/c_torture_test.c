/* Random calls from four threads with valid, stale, duplicate, mistyped and zero handles: nothing
 * crashes, no handle affects another lease, and the counts are consistent.
 *
 * usage: c_torture_test [CALLS [SEED]] */
#include <pthread.h>

#include "check.h"

enum { threads = 4, pools = 3, kept = 16 };

/* Handles shared by all threads, so that the threads interfere. */
typedef struct scene {
    atomic_uint_fast64_t pool[pools];
    atomic_uint_fast64_t leases[kept];
    atomic_uint_fast64_t requests[kept];
    atomic_int made; /* pools so far */
    atomic_int contexts_ended;
    atomic_llong tries, opened, closed, detached; /* resources */
    atomic_llong granted, ended, left;            /* leases */
    atomic_llong requested, answered;             /* requests */
    atomic_llong codes[CENOTE_INTERNAL + 1];      /* how acquires ended */
    long calls;
    uint64_t seed;
} scene;

static scene s;

static uint64_t next_random(uint64_t* state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Resources are numbers, so that remaining holders have nothing to free. */
static int open_number(void* context, void** resource, cenote_failure* why) {
    CHECK(context == &s);
    if (!watched_by_tsan && ++s.tries % 16 == 0) {
        why->cause = 1;
        return CENOTE_DISCARD;
    }
    ++s.opened;
    *resource = (void*)(uintptr_t)42;
    return CENOTE_KEEP;
}

static void close_number(void* context, void* resource) {
    CHECK(context == &s && resource == (void*)(uintptr_t)42);
    ++s.closed;
}

static int accept_all(void* context, void* resource, cenote_failure* why) {
    (void)why;
    CHECK(context == &s && resource == (void*)(uintptr_t)42);
    return CENOTE_KEEP;
}

static int accept_before(void* context, void* resource) {
    return accept_all(context, resource, NULL);
}

static void end_context(void* context) {
    CHECK(context == &s);
    ++s.contexts_ended;
}

static void keep(cenote_lease lease) {
    ++s.granted;
    s.leases[lease % kept] = lease;
}

static void on_acquired(void* context, cenote_code code, cenote_lease lease, void* resource,
                        const cenote_failure* why) {
    (void)context, (void)resource, (void)why;
    ++s.answered;
    ++s.codes[code];
    if (code == CENOTE_OK) keep(lease);
    else CHECK(code >= CENOTE_TIMED_OUT && code <= CENOTE_DEADLOCK);
}

static cenote_pool fresh_pool(void) {
    int number = s.made++;
    cenote_connector c = {.size = sizeof c,
                          .context = &s,
                          .open = open_number,
                          .close = close_number,
                          .end = end_context};
    if (number % 2 == 1) {
        c.probe = accept_all;
        c.reset = accept_all;
        c.before_acquire = accept_before;
        c.before_release = accept_before;
    }
    cenote_options o = options_of(1 + (uint64_t)number % 4);
    cenote_pool pool;
    CHECK_OK(cenote_create(&c, &o, &pool, NULL));
    return pool;
}

/* Replaces a pool by a new one. */
static void replace_pool(uint64_t* random) {
    uint64_t at = next_random(random) % pools;
    cenote_pool old = s.pool[at];
    size_t left;
    cenote_code code = cenote_destroy(old, &left);
    CHECK(code == CENOTE_OK || code == CENOTE_STALE_HANDLE);
    if (code != CENOTE_OK) return;
    s.left += (long long)left;
    s.pool[at] = fresh_pool();
}

/* A handle that is or was a lease, or sometimes an arbitrary number. */
static cenote_lease some_lease(uint64_t* random) {
    uint64_t r = next_random(random);
    cenote_lease lease = s.leases[r % kept];
    switch (r >> 8 & 31) {
        case 0: return 0;
        case 1: return next_random(random);
        case 2: return s.pool[r % pools];
        case 3: return lease + (UINT64_C(1) << 24);
        case 4: return lease ^ 1;
        case 5: return s.requests[r % kept];
        default: return lease;
    }
}

static cenote_pool some_pool(uint64_t* random) {
    uint64_t r = next_random(random);
    switch (r >> 8 & 63) {
        case 0: return 0;
        case 1: return next_random(random);
        case 2: return s.leases[r % kept];
        case 3: return s.pool[r % pools] - (UINT64_C(1) << 24);
        default: return s.pool[r % pools];
    }
}

static void note_end(cenote_code code) {
    if (code == CENOTE_OK) ++s.ended;
    else CHECK(code == CENOTE_STALE_HANDLE || code == CENOTE_INVALID_HANDLE);
}

static bool is_bad_handle(cenote_code code) {
    return code == CENOTE_STALE_HANDLE || code == CENOTE_INVALID_HANDLE;
}

static void acquire_somehow(uint64_t* random) {
    uint64_t r = next_random(random);
    cenote_pool pool = some_pool(random);
    cenote_lease lease;
    void* resource;
    cenote_failure why = {.size = sizeof why};
    cenote_acquire_options how = CENOTE_ACQUIRE_OPTIONS;
    how.timeout = (int64_t)(r % 200) * 1000;
    how.priority = (cenote_priority)(r >> 16 & 3);
    cenote_code code = CENOTE_OK;
    switch (r >> 8 & 3) {
        case 0: code = cenote_acquire(pool, how.timeout, &lease, &resource); break;
        case 1: code = cenote_acquire_with(pool, &how, &lease, &resource, &why); break;
        default: code = cenote_try_acquire(pool, &lease, &resource); break;
    }
    ++s.codes[code];
    if (code == CENOTE_OK) {
        CHECK(lease != 0 && resource != NULL);
        keep(lease);
    } else {
        CHECK(lease == 0 && resource == NULL);
        CHECK(is_bad_handle(code) || code == CENOTE_EMPTY || code <= CENOTE_DEADLOCK);
    }
}

static void ask(uint64_t* random) {
    cenote_acquire_options how = CENOTE_ACQUIRE_OPTIONS;
    how.timeout = (int64_t)(next_random(random) % 1000) * 1000;
    cenote_request request;
    cenote_code code = cenote_acquire_async(some_pool(random), &how, on_acquired, NULL, &request);
    if (code == CENOTE_OK) {
        ++s.requested;
        s.requests[request % kept] = request;
    } else {
        CHECK(is_bad_handle(code) && request == 0);
    }
}

static void control(uint64_t* random) {
    cenote_pool pool = some_pool(random);
    cenote_code code = CENOTE_OK;
    switch (next_random(random) % 8) {
        case 0: code = cenote_retire_all(pool); break;
        case 1: code = cenote_resize(pool, 1 + next_random(random) % 4); break;
        case 2:
            code = cenote_pause(pool);
            if (code == CENOTE_OK) code = cenote_resume(pool);
            break;
        case 3:
            code = cenote_deactivate(pool);
            if (code == CENOTE_OK) code = cenote_activate(pool);
            break;
        case 4: code = cenote_suspect_all(pool); break;
        case 5: {
            cenote_stats look = {.size = sizeof look};
            code = cenote_look(pool, &look);
            if (code == CENOTE_OK)
                CHECK(look.granted == look.released + look.detached + look.leased);
            break;
        }
        case 6: {
            uint64_t value;
            code = cenote_count(pool, CENOTE_COUNT_IDLE, &value);
            break;
        }
        default: {
            cenote_holder holders[4] = {{.size = sizeof *holders}};
            size_t n;
            code = cenote_holders(pool, holders, 4, &n);
            break;
        }
    }
    CHECK(code == CENOTE_OK || is_bad_handle(code));
}

static void act(uint64_t* random) {
    uint64_t r = next_random(random) % 256;
    void* resource;
    if (r < 100) acquire_somehow(random);
    else if (r < 200) note_end(cenote_release(some_lease(random)));
    else if (r < 212) note_end(cenote_discard(some_lease(random)));
    else if (r < 220) note_end(cenote_release_as(some_lease(random), (cenote_verdict)(r % 5)));
    else if (r < 226) {
        cenote_code code = cenote_mark_dirty(some_lease(random));
        CHECK(code == CENOTE_OK || is_bad_handle(code));
    } else if (r < 232) {
        cenote_code code = cenote_resource(some_lease(random), &resource);
        CHECK(code == CENOTE_OK ? resource != NULL : resource == NULL && is_bad_handle(code));
    } else if (r < 236) {
        cenote_code code = cenote_detach(some_lease(random), &resource);
        note_end(code);
        if (code == CENOTE_OK) ++s.detached;
    } else if (r < 244) ask(random);
    else if (r < 248) {
        cenote_code code = cenote_cancel(some_pool(random), s.requests[r % kept]);
        CHECK(code == CENOTE_OK || is_bad_handle(code));
    } else if (r < 255 || next_random(random) % 64 != 0) control(random);
    else replace_pool(random);
}

static void* torture(void* which) {
    uint64_t random = s.seed * threads + (uint64_t)(intptr_t)which;
    for (long i = 0; i < s.calls / threads; ++i) act(&random);
    return NULL;
}

int main(int argc, char** argv) {
    s.calls = argc > 1 ? atol(argv[1]) : 1000000;
    s.seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
    printf("again: c_torture_test %ld %llu\n", s.calls, (unsigned long long)s.seed);
    fflush(stdout);
    for (int i = 0; i < pools; ++i) s.pool[i] = fresh_pool();
    pthread_t at[threads];
    for (intptr_t i = 0; i < threads; ++i) pthread_create(&at[i], NULL, torture, (void*)i);
    for (int i = 0; i < threads; ++i) pthread_join(at[i], NULL);
    for (int i = 0; i < pools; ++i) {
        size_t left;
        CHECK_OK(cenote_destroy(s.pool[i], &left));
        s.left += (long long)left;
    }
    CHECK(s.requested == s.answered);
    CHECK(s.granted == s.ended + s.left);
    CHECK(s.opened == s.closed + s.detached + s.left);
    CHECK(s.contexts_ended == s.made);
    printf("%lld leases, %lld ended, %lld left to their holders; %lld requests; %d pools\n",
           (long long)s.granted, (long long)s.ended, (long long)s.left, (long long)s.requested,
           s.made);
    for (int i = 0; i <= CENOTE_INTERNAL; ++i)
        if (s.codes[i] != 0)
            printf("  %-16s %lld\n", cenote_word((cenote_code)i), (long long)s.codes[i]);
    CHECK(s.granted > s.calls / 100); /* enough leases for a meaningful test */
    return 0;
}

/* For tests in C: checks that end the program, and a pooled resource. */
#ifndef CENOTE_TESTS_C_CHECK_H
#define CENOTE_TESTS_C_CHECK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cenote/cenote.h"

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

#define CHECK_CODE(call, expected)                                                  \
    do {                                                                            \
        cenote_code got_ = (call);                                                  \
        if (got_ != (expected)) {                                                   \
            fprintf(stderr, "%s:%d: %s is %s, not %s\n", __FILE__, __LINE__, #call, \
                    cenote_word(got_), cenote_word(expected));                      \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

#define CHECK_OK(call) CHECK_CODE(call, CENOTE_OK)
#define CHECK_HAS(text, part)                                                                     \
    do {                                                                                          \
        if (strstr((text), (part)) == NULL) {                                                     \
            fprintf(stderr, "%s:%d: \"%s\" is not in: %s\n", __FILE__, __LINE__, (part), (text)); \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

#define RUN(test)              \
    do {                       \
        printf("%s\n", #test); \
        fflush(stdout);        \
        test();                \
    } while (0)

/* Exceptions carry the failures of `open` between threads. The standard library counts their
 * references without instrumentation, so the thread sanitizer reports false races. */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define WATCHED_BY_TSAN 1
#endif
#endif
#ifdef WATCHED_BY_TSAN
static const bool watched_by_tsan = true;
#else
static const bool watched_by_tsan = false;
#endif

static const int64_t millisecond = INT64_C(1000000);
static const int64_t second = INT64_C(1000000000);
/* A timeout for what must happen, also on a busy machine. */
static const int64_t patience = INT64_C(60000000000);

static inline void sleep_for(int64_t time) {
    struct timespec t = {time / INT64_C(1000000000), time % INT64_C(1000000000)};
    nanosleep(&t, NULL);
}

/* Waits for a condition that must become true. */
#define WAIT_UNTIL(condition)                                                          \
    do {                                                                               \
        for (int tries_ = 0; !(condition); ++tries_) {                                 \
            if (tries_ == 60000) {                                                     \
                fprintf(stderr, "%s:%d: never: %s\n", __FILE__, __LINE__, #condition); \
                exit(1);                                                               \
            }                                                                          \
            sleep_for(millisecond);                                                    \
        }                                                                              \
    } while (0)

/* A resource. */
typedef struct thing {
    atomic_int holders; /* at most one at a time */
    int number;
} thing;

/* Counts the calls of the callbacks, and sets their results. */
typedef struct workshop {
    atomic_int opened, closed, probed, reset, before_acquire, before_release, ended;
    atomic_int open_says, probe_says, reset_says, before_acquire_says, before_release_says;
    atomic_bool open_waits, opens_nothing;
} workshop;

static int workshop_open(void* context, void** resource, cenote_failure* why) {
    workshop* w = context;
    while (w->open_waits) sleep_for(millisecond);
    int says = w->open_says;
    if (says != CENOTE_KEEP) {
        why->cause = 111;
        snprintf(why->text, sizeof why->text, "connection refused on port %d", 5432);
        return says;
    }
    if (w->opens_nothing) return CENOTE_KEEP;
    thing* made = calloc(1, sizeof *made);
    made->number = ++w->opened;
    *resource = made;
    return CENOTE_KEEP;
}

static void workshop_close(void* context, void* resource) {
    workshop* w = context;
    thing* t = resource;
    CHECK(t->holders == 0);
    ++w->closed;
    free(t);
}

static int workshop_probe(void* context, void* resource, cenote_failure* why) {
    workshop* w = context;
    CHECK(((thing*)resource)->number > 0);
    ++w->probed;
    if (w->probe_says != 0) {
        why->cause = 112;
        snprintf(why->text, sizeof why->text, "it does not answer");
    }
    return w->probe_says;
}

static int workshop_reset(void* context, void* resource, cenote_failure* why) {
    workshop* w = context;
    CHECK(((thing*)resource)->holders == 0);
    ++w->reset;
    if (w->reset_says != 0) why->cause = 113;
    return w->reset_says;
}

static int workshop_before_acquire(void* context, void* resource) {
    workshop* w = context;
    CHECK(((thing*)resource)->number > 0);
    ++w->before_acquire;
    return w->before_acquire_says;
}

static int workshop_before_release(void* context, void* resource) {
    workshop* w = context;
    CHECK(((thing*)resource)->number > 0);
    ++w->before_release;
    return w->before_release_says;
}

static void workshop_end(void* context) { ++((workshop*)context)->ended; }

static inline cenote_connector connector_of(workshop* w) {
    cenote_connector c = {.size = sizeof c,
                          .context = w,
                          .open = workshop_open,
                          .close = workshop_close,
                          .end = workshop_end};
    return c;
}

/* A connector with all callbacks. */
static inline cenote_connector able_connector_of(workshop* w) {
    cenote_connector c = connector_of(w);
    c.probe = workshop_probe;
    c.reset = workshop_reset;
    c.before_acquire = workshop_before_acquire;
    c.before_release = workshop_before_release;
    return c;
}

static inline cenote_options options_of(uint64_t max) {
    cenote_options o;
    CHECK_OK(cenote_options_init(&o, sizeof o));
    o.max = max;
    o.acquire_timeout = o.open_timeout = o.probe_timeout = patience;
    o.reset_timeout = o.close_timeout = patience;
    o.backoff_first = o.backoff_cap_waiting = o.backoff_cap_idle = millisecond;
    return o;
}

static inline cenote_pool pool_of(const cenote_connector* c, uint64_t max) {
    cenote_options o = options_of(max);
    cenote_pool pool;
    CHECK_OK(cenote_create(c, &o, &pool, NULL));
    CHECK(pool != 0);
    return pool;
}

static inline uint64_t count(cenote_pool pool, cenote_counter which) {
    uint64_t value = 0;
    CHECK_OK(cenote_count(pool, which, &value));
    return value;
}

static inline cenote_lease lease_from(cenote_pool pool) {
    cenote_lease lease;
    void* resource;
    CHECK_OK(cenote_acquire(pool, patience, &lease, &resource));
    CHECK(lease != 0 && resource != NULL);
    return lease;
}

/* The resource of a lease that is never released. */
static inline void* keep_from(cenote_pool pool) {
    void* resource;
    CHECK_OK(cenote_resource(lease_from(pool), &resource));
    return resource;
}

/* Destroys a pool without leases. */
static inline void end(cenote_pool pool, workshop* w) {
    size_t left = 99;
    CHECK_OK(cenote_destroy(pool, &left));
    CHECK(left == 0);
    CHECK(w->opened == w->closed);
    CHECK(w->ended == 1);
}

#endif

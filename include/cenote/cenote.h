/* The pool for C, and for every language that can call C; library `libcenote.so`.
 *
 *     static int open_session(void* context, void** resource, cenote_failure* why);
 *     static void close_session(void* context, void* resource);
 *
 *     cenote_connector connector = {.size = sizeof connector, .context = &config,
 *                                   .open = open_session, .close = close_session};
 *     cenote_options options;
 *     cenote_options_init(&options, sizeof options);
 *     options.max = 32;
 *
 *     cenote_pool pool;
 *     if (cenote_create(&connector, &options, &pool, NULL) != CENOTE_OK) …
 *
 *     cenote_lease lease;
 *     void* session;
 *     if (cenote_acquire(pool, CENOTE_DEFAULT_TIMEOUT, &lease, &session) == CENOTE_OK) {
 *         …
 *         cenote_release(lease);
 *     }
 *     cenote_destroy(pool, NULL);
 *
 * Handles. A pool, a lease and a request are numbers, of which none is given twice. One that has
 * ended, that never was, that is of another kind or zero is answered with CENOTE_STALE_HANDLE or
 * CENOTE_INVALID_HANDLE, whenever it comes and on whichever thread; it never touches what somebody
 * else holds.
 *
 * Codes. Every function returns CENOTE_OK or says why not, and then has changed nothing, unless it
 * says otherwise. What it was to fill in is zero then.
 *
 * Codes, states and the like are numbers of 32 bits, so that one that is not known, here or there,
 * can be told; in C++, too.
 *
 * Times are in nanoseconds. CENOTE_FOREVER switches a limit off.
 *
 * Structures begin with their size, which whoever allocates them sets to `sizeof`. So a program
 * and a library of different age understand each other: what one of them does not know is as if it
 * were not there. A program that asks for something that the library is too old for is refused with
 * CENOTE_INVALID_ARGUMENT instead of being given less.
 *
 * Thread safety: every function may be called from any thread at any time, also with the same
 * handle and also from a callback, except where it says otherwise. A function that ends a handle
 * does so for one caller; all others are told that it is stale.
 *
 * Callbacks. A C++ exception that leaves one is taken for a failure, where failing is possible, and
 * otherwise ends the program. No exception ever leaves a function of this library. A callback must
 * return: it must not end its thread. Of a structure that it is given it may use what lies within
 * the structure's size.
 *
 * Compiles as C11 and as C++. Pools of C++ have more: <cenote/pool.hpp>. */
#ifndef CENOTE_CENOTE_H
#define CENOTE_CENOTE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CENOTE_API __attribute__((visibility("default")))

/* Numbers that are never zero, so that zero can stand for none. */
typedef uint64_t cenote_pool;
typedef uint64_t cenote_lease;
typedef uint64_t cenote_request;

#define CENOTE_FOREVER INT64_MAX         /* a time that never comes */
#define CENOTE_UNLIMITED UINT64_MAX      /* a count that is never reached */
#define CENOTE_DEFAULT_TIMEOUT INT64_MIN /* as cenote_options.acquire_timeout says */

/* "file.c:88", for cenote_wish.task: who holds a lease for long. */
#define CENOTE_HERE __FILE__ ":" CENOTE_TEXT_OF_(__LINE__)
#define CENOTE_TEXT_OF_(what) CENOTE_TEXT_OF_THIS_(what)
#define CENOTE_TEXT_OF_THIS_(what) #what

/* ---- What can go wrong ---------------------------------------------------------------------- */

typedef int32_t cenote_code;
enum {
    CENOTE_OK = 0,

    /* Why an acquire ends without a lease. */
    CENOTE_TIMED_OUT = 1,   /* The time is up. The pool may be perfectly healthy, just busy. */
    CENOTE_CLOSED = 2,      /* The pool was closed. */
    CENOTE_UNAVAILABLE = 3, /* The circuit breaker is open. */
    CENOTE_LINE_FULL = 4,   /* `line_max` callers wait already, or cenote_wish.no_queue. */
    CENOTE_SHED = 5,        /* Refused early because the line has been late for too long. */
    CENOTE_CANCELED = 6,    /* cenote_cancel was called. */
    CENOTE_OPEN_FAILED = 7, /* No resource could be opened, and no other will serve in time. */
    CENOTE_DEADLOCK = 8, /* The wait could not end: every lease was acquired by a thread that waits
                            in this pool (see refuse_deadlock); or a callback of the pool asks it
                            to end. */

    CENOTE_EMPTY = 32,            /* cenote_try_acquire: nothing is ready now. */
    CENOTE_INVALID_ARGUMENT = 33, /* A pointer is null, a size or a value is not one of these. */
    CENOTE_INVALID_OPTION = 34,   /* An option breaks its rule; the failure's text says which. */
    CENOTE_INVALID_HANDLE = 35,   /* This was never a handle of that kind. */
    CENOTE_STALE_HANDLE = 36,     /* It was one: released, destroyed, or completed meanwhile. */
    CENOTE_NO_MEMORY = 37,
    CENOTE_SYSTEM = 38,  /* The system refuses something, for example another thread. */
    CENOTE_INTERNAL = 39 /* A bug in the library. */
};

/* A sentence for a code, and its word ("timed_out"). Never null, also not for a number that is no
 * code. */
CENOTE_API const char* cenote_text(cenote_code code);
CENOTE_API const char* cenote_word(cenote_code code);

#define CENOTE_TEXT_MAX 512

/* What went wrong, in full. From callbacks to the library: `cause` and `text`. From the library to
 * its callers, who set `size` before: all of it. Texts that are too long are cut. */
typedef struct cenote_failure {
    size_t size;
    cenote_code code;
    int32_t cause;       /* What the last failed open gave as its `cause`; else zero. */
    int64_t retry_after; /* With UNAVAILABLE, LINE_FULL, SHED: when to come again. An estimate. */
    char text[CENOTE_TEXT_MAX]; /* Who holds what, how many wait, what the last open said. */
} cenote_failure;

/* What a callback thinks of a resource. Zero is good; any number not listed here is DISCARD. */
typedef int32_t cenote_verdict;
enum {
    CENOTE_KEEP = 0,    /* It is fine. */
    CENOTE_RESET = 1,   /* It works, but must be reset before anybody else gets it. */
    CENOTE_DISCARD = 2, /* It is broken. From `open`: try again later. */
    CENOTE_FINAL = 3,   /* Broken, and opening another will fail the same way. */
    CENOTE_SUSPECT = 4, /* Broken, and so may be whatever is as old: a server was restarted. */
    CENOTE_RESET_LATER = 5 /* From `before_release`: it works, and owes a reset, which its next use
                            * makes, or the pool when it stays idle for `reset_after`. */
};

/* ---- Who makes and tends resources ---------------------------------------------------------- */

/* Only `open` is required; null stands for "cannot". Copied by cenote_create.
 *
 * `context` is what each of them gets first. It must live until `end` was called.
 *
 * open, probe, reset and close may block: they run on threads of the pool's, each under its timeout
 * (cenote_options), several at once but never two on one resource. The others run where they are
 * needed, often on the thread of a borrower, and must be quick. All of them may call this library,
 * but neither destroy their pool nor wait for it to close. */
typedef struct cenote_connector {
    size_t size;
    void* context;

    /* CENOTE_KEEP and a resource that is not null; or CENOTE_FINAL, or any other number for a
     * failure that may pass. `why` may be filled in: `cause`, `text`. */
    int (*open)(void* context, void** resource, cenote_failure* why);
    /* Says goodbye and frees: the library never looks at `resource` again. */
    void (*close)(void* context, void* resource);
    /* Zero: it is alive. `why` as above: observers are told. */
    int (*probe)(void* context, void* resource, cenote_failure* why);
    /* Zero: it is as new. */
    int (*reset)(void* context, void* resource, cenote_failure* why);
    /* At every lease. Zero: lend it; otherwise another one is lent and this one closed. */
    int (*before_acquire)(void* context, void* resource);
    /* At the end of every lease: a cenote_verdict. RESET_LATER needs a `reset`: without one the
     * resource is closed, and observers are told why. */
    int (*before_release)(void* context, void* resource);
    /* In the child of a fork, instead of `close`: lets go of the child's copy without a word to the
     * other side, which still belongs to the parent. Without it the copy stays open. */
    void (*forsake)(void* context, void* resource);
    /* Once, when none of these will be called again: in cenote_destroy, before it returns, or in
     * cenote_create, if that fails; later, if a call has outlived its timeout and is still under
     * way. Not for a connector that cannot be read or has no `open`. */
    void (*end)(void* context);
} cenote_connector;

/* ---- Being told ----------------------------------------------------------------------------- */

typedef int32_t cenote_breaker_state;
enum {
    CENOTE_ACTIVE = 0,    /* Everything as usual. */
    CENOTE_INACTIVE = 1,  /* Every acquire is refused with CENOTE_UNAVAILABLE. */
    CENOTE_RECOVERING = 2 /* A few may try, all others are refused. */
};

typedef int32_t cenote_event_kind;
enum {
    CENOTE_EVENT_OPENED = 0,      /* `took` */
    CENOTE_EVENT_OPEN_FAILED = 1, /* `cause`, `text`, `took` */
    CENOTE_EVENT_ACQUIRED = 2,    /* `took`: how long its holder waited */
    CENOTE_EVENT_RELEASED = 3,    /* `took`: how long it was held */
    CENOTE_EVENT_DISCARDED = 4,
    CENOTE_EVENT_DETACHED = 5,
    CENOTE_EVENT_RETIRED = 6,      /* `reason` */
    CENOTE_EVENT_PROBE_FAILED = 7, /* `cause`, `text` */
    CENOTE_EVENT_RESET_FAILED = 8, /* `cause`, `text` */
    CENOTE_EVENT_CLOSED = 9,
    CENOTE_EVENT_EXHAUSTED = 10,       /* an acquire is about to be refused; `code` */
    CENOTE_EVENT_LOOP_BLOCKED = 11,    /* not in pools of C */
    CENOTE_EVENT_NESTED_ACQUIRE = 12,  /* a thread that holds a lease waits for another one */
    CENOTE_EVENT_LEAK_SUSPECTED = 13,  /* a lease is held for long; `took`, `task` */
    CENOTE_EVENT_BREAKER_CHANGED = 14, /* `breaker` */
    CENOTE_EVENT_PAUSED = 15,
    CENOTE_EVENT_RESUMED = 16,
    CENOTE_EVENT_CLOSING = 17,
    CENOTE_EVENT_CLOSED_POOL = 18
};

typedef int32_t cenote_retire_reason;
enum {
    CENOTE_RETIRED_IDLE = 0,
    CENOTE_RETIRED_AGE = 1,
    CENOTE_RETIRED_USES = 2,
    CENOTE_RETIRED_GENERATION = 3, /* older than the last cenote_retire_all */
    CENOTE_RETIRED_PROBE_FAILED = 4,
    CENOTE_RETIRED_RESET_FAILED = 5,
    CENOTE_RETIRED_REJECTED = 6, /* before_acquire or before_release said no */
    CENOTE_RETIRED_SURPLUS = 7   /* more than `max`, since a cenote_resize */
};

/* The words for them, never null. */
CENOTE_API const char* cenote_event_word(cenote_event_kind kind);
CENOTE_API const char* cenote_retire_word(cenote_retire_reason reason);
CENOTE_API const char* cenote_breaker_word(cenote_breaker_state state);

/* Only what is named at its kind carries a meaning. Texts are good for the duration of the call. */
typedef struct cenote_event {
    size_t size;
    cenote_event_kind kind;
    cenote_retire_reason reason;
    cenote_code code;
    cenote_breaker_state breaker;
    const char* pool;  /* the pool's name */
    uint64_t resource; /* which resource: a number never used twice in a pool */
    int64_t took;
    int32_t cause;    /* what the callback gave as its `cause` */
    const char* text; /* and as its text; empty: none */
    const char* task; /* cenote_wish.task, or null */
} cenote_event;

/* Which kinds an observer wants, in a number. ACQUIRED and RELEASED have a price: a pool that must
 * tell of every lease takes its lock for every lease. */
#define CENOTE_WANTS(kind) (UINT64_C(1) << (kind))
#define CENOTE_WANTS_ALL UINT64_MAX
#define CENOTE_WANTS_ALL_BUT_LEASES \
    (UINT64_MAX ^ CENOTE_WANTS(CENOTE_EVENT_ACQUIRED) ^ CENOTE_WANTS(CENOTE_EVENT_RELEASED))

/* Told about events in their order, one at a time, by a thread of the pool's; EXHAUSTED comes on
 * the thread that is about to be refused. What an observer cannot follow is dropped, and counted as
 * `events_lost`. It is not called any more when cenote_destroy has returned. Copied by
 * cenote_create. */
typedef struct cenote_observer {
    size_t size;
    void* context;
    uint64_t wants;
    void (*on_event)(void* context, const cenote_event* what);
} cenote_observer;

/* From one state to another. */
typedef struct cenote_breaker_move {
    size_t size;
    cenote_breaker_state to;
    int64_t cool_down; /* To INACTIVE: when the strategy is asked whether to recover. */
    uint64_t probes;   /* To RECOVERING: how many leases may be out at a time. */
} cenote_breaker_move;

/* What a strategy is told. It is valid until the call returns. */
typedef struct cenote_breaker_report {
    size_t size;
    const char* pool;           /* The name of the pool. */
    cenote_breaker_state state; /* Of the circuit now. */
    uint64_t count;             /* With `succeeded`: how many uses, since the last report. */
    int64_t at;                 /* When it happened: nanoseconds of CLOCK_MONOTONIC. */
    const char* text;           /* With `failed`: the text of the error, or NULL. */
} cenote_breaker_report;

/* Decides when the circuit opens and closes. Each function returns zero to stay in the present
 * state, or another number to go where it has filled in (`go` comes with a cool-down of a second
 * and one probe). A success is a lease that came back and was accepted; an open that succeeds is
 * not reported. A failure is a failed open or probe, a rejected lease, or one released as DISCARD
 * or worse. While the circuit is active, successes are reported as a sum: before each failure, and
 * otherwise every 100 ms or at the next sweep.
 *
 * Called from any thread, one call at a time and in the order in which things happened. Copied by
 * cenote_create; `context` must live until the connector's `end`. */
typedef struct cenote_breaker {
    size_t size;
    void* context;
    int (*succeeded)(void* context, const cenote_breaker_report* what, cenote_breaker_move* go);
    int (*failed)(void* context, const cenote_breaker_report* what, cenote_breaker_move* go);
    /* The cool-down is over. Null: recovers. */
    int (*cooled_down)(void* context, const cenote_breaker_report* what, cenote_breaker_move* go);
} cenote_breaker;

/* The strategy that counts: opens the circuit after `failures` in a row, lets `probes` try after
 * `cool_down`, closes it after `successes` of these. */
typedef struct cenote_threshold {
    size_t size;
    uint64_t failures;
    int64_t cool_down;
    uint64_t probes;
    uint64_t successes;
} cenote_threshold;

/* ---- Options -------------------------------------------------------------------------------- */

typedef int32_t cenote_warm_up;
enum {
    CENOTE_WARM_UP_BACKGROUND = 0, /* Starts opening the minimum and returns at once. */
    CENOTE_WARM_UP_WAIT = 1,       /* Returns when it is open, or fails with OPEN_FAILED. */
    CENOTE_WARM_UP_NONE = 2        /* Opens nothing before the first acquire. */
};

typedef int32_t cenote_order;
enum { CENOTE_LIFO = 0, CENOTE_FIFO = 1 };

typedef int32_t cenote_fairness;
enum { CENOTE_STRICT = 0, CENOTE_BOUNDED = 1, CENOTE_TURNS = 2 };

/* After a failed open callers go on waiting, or are refused at once with OPEN_FAILED. */
typedef int32_t cenote_open_errors;
enum { CENOTE_OPEN_ERRORS_RETRY = 0, CENOTE_OPEN_ERRORS_FAIL_FAST = 1 };

typedef int32_t cenote_priority;
enum {
    CENOTE_PRIORITY_RESERVED = 0, /* Before everybody else: for health checks, administration. */
    CENOTE_PRIORITY_HIGH = 1,
    CENOTE_PRIORITY_NORMAL = 2,
    CENOTE_PRIORITY_LOW = 3
};

/* What each means, and when to change it: <cenote/options.hpp>. Made by cenote_options_init, which
 * sets what is said here. */
typedef struct cenote_options {
    size_t size;
    const char* name;         /* "pool"; in errors and events */
    uint64_t max;             /* 10; never more are open, at no instant */
    uint64_t min_size;        /* 0; kept open */
    uint64_t min_idle;        /* 0; kept ready on top of those that are leased */
    cenote_warm_up warm_up;   /* BACKGROUND */
    cenote_order order;       /* LIFO; which idle one is lent next */
    cenote_fairness fairness; /* STRICT */
    int32_t probe_on_release; /* 0 */
    int32_t refuse_deadlock;  /* 0; 1 if leases are released by the threads that acquired them */
    cenote_open_errors open_errors; /* RETRY */
    int64_t acquire_timeout;  /* 5 s; for a whole acquire */
    int64_t open_timeout;     /* 10 s; for one call of a callback */
    int64_t probe_timeout;    /* 1 s */
    int64_t reset_timeout;    /* 1 s */
    int64_t close_timeout;    /* 1 s */
    uint64_t opening_max;     /* 4; opens at a time */
    uint64_t open_rate;       /* UNLIMITED; opens per second */
    uint64_t open_burst;      /* 1 */
    int64_t idle_timeout;     /* 5 min */
    int64_t max_lifetime;     /* 30 min */
    double lifetime_jitter;   /* 0.1 */
    uint64_t max_uses;        /* UNLIMITED */
    int64_t sweep_interval;   /* 1 s */
    int64_t probe_after_idle; /* 5 s */
    int64_t heartbeat;        /* FOREVER */
    int64_t leak_after;       /* 30 s; then observers are told who holds a lease */
    int64_t bypass_for;       /* 1 ms; with BOUNDED */
    uint64_t line_max;        /* 10 000; more are refused with LINE_FULL */
    int64_t head_start;       /* 1 s; what a priority is worth */
    int64_t shed_target;      /* FOREVER; refuse with SHED who would be served later */
    int64_t shed_interval;    /* 100 ms */
    int64_t backoff_first;    /* 20 ms; between failed opens */
    int64_t backoff_cap_waiting;       /* 200 ms */
    int64_t backoff_cap_idle;          /* 5 s */
    uint64_t seed;                     /* 0: from the system */
    const cenote_observer* observer;   /* null: none */
    const cenote_breaker* breaker;     /* null: by hand, unless there is a threshold */
    const cenote_threshold* threshold; /* null: none; not together with `breaker` */
    int64_t reset_after; /* 50 ms; a resource that owes a reset (RESET_LATER) is reset when idle so
                          * long */
} cenote_options;

/* Sets `size` bytes: what the library knows to its default, all else to zero. `size` is
 * sizeof(cenote_options). Fails with INVALID_ARGUMENT. */
CENOTE_API cenote_code cenote_options_init(cenote_options* options, size_t size);
/* The same: 5 failures, a second, 1 probe, 1 success. */
CENOTE_API cenote_code cenote_threshold_init(cenote_threshold* threshold, size_t size);

/* ---- The pool ------------------------------------------------------------------------------- */

/* Makes a pool. `options` may be null: all defaults; `why` may be null. Fails with
 * INVALID_ARGUMENT, INVALID_OPTION, NO_MEMORY, SYSTEM; with warm_up WAIT also OPEN_FAILED, `why`
 * saying what the callback said. Callbacks may run before this returns, hence before `pool` is
 * set. */
CENOTE_API cenote_code cenote_create(const cenote_connector* connector,
                                     const cenote_options* options, cenote_pool* pool,
                                     cenote_failure* why);

/* Closes the pool, waits for whoever is in a call with it (who waits is refused with CLOSED), for
 * calls of the connector (each at most until its timeout) and for the observer. Then the handle is
 * stale, and nothing is called any more but for a call that outlived its timeout (see
 * cenote_connector.end).
 *
 * Leases that are still out go stale as well: their resources now belong to who holds them, and it
 * is they who must close them; `left`, unless null, says how many. cenote_close before gives them
 * time to come back: do that, unless each holder knows its resource and will close it. Fails with
 * DEADLOCK in a callback of this pool, and further up on the stack of a call with it; and for a bad
 * handle. */
CENOTE_API cenote_code cenote_destroy(cenote_pool pool, size_t* left);

/* Refuses new acquires and everybody in line with CLOSED, closes what is idle now and what is
 * leased when it comes back; waits until everything is closed, at most for `timeout` (0: does not
 * wait). `left`, unless null: how many leases are still out. Can be called again. With a timeout it
 * fails with DEADLOCK in a callback of this pool, and further up on the stack of a call with it; it
 * is closed nevertheless. */
CENOTE_API cenote_code cenote_close(cenote_pool pool, int64_t timeout, size_t* left);

/* Waits until the minimum is open, starting that if `warm_up` did not. Fails with TIMED_OUT,
 * CLOSED, or OPEN_FAILED if the last open failed. */
CENOTE_API cenote_code cenote_wait_ready(cenote_pool pool, int64_t timeout);

/* ---- Acquire and release -------------------------------------------------------------------- */

/* Waits at most for `timeout`, or CENOTE_DEFAULT_TIMEOUT; 0 or less: takes only what
 * is ready, or TIMED_OUT.
 * `resource`, unless null: what `open` has made. Fails with any of the codes 1 to 8 and NO_MEMORY,
 * SYSTEM. */
CENOTE_API cenote_code cenote_acquire(cenote_pool pool, int64_t timeout, cenote_lease* lease,
                                      void** resource);

/* What an acquire wants otherwise than the rest. {.size = sizeof wish} with all else zero would be
 * an acquire with the priority RESERVED that does not wait: use CENOTE_WISH. */
typedef struct cenote_wish {
    size_t size;
    int64_t timeout; /* CENOTE_DEFAULT_TIMEOUT, or how long to wait */
    cenote_priority priority;
    int32_t no_queue; /* 1: does not wait for leases of others; LINE_FULL if all are in use */
    /* Names what the lease is for, in reports of leaks and in the texts of failures. Null: nothing.
     * Not copied: a literal (CENOTE_HERE), or something else that lives as long as the pool. */
    const char* task;
    int64_t leak_after; /* 0: as in the options; FOREVER: never reported */
} cenote_wish;

#define CENOTE_WISH \
    {sizeof(cenote_wish), CENOTE_DEFAULT_TIMEOUT, CENOTE_PRIORITY_NORMAL, 0, NULL, 0}

/* cenote_acquire with all there is to say. `wish` may be null, and so may `why`. */
CENOTE_API cenote_code cenote_acquire_with(cenote_pool pool, const cenote_wish* wish,
                                           cenote_lease* lease, void** resource,
                                           cenote_failure* why);

/* What is ready now; never waits, neither for others nor for a callback but before_acquire. Fails
 * with EMPTY, also if the pool is closed. */
CENOTE_API cenote_code cenote_try_acquire(cenote_pool pool, cenote_lease* lease, void** resource);

/* How an asynchronous acquire ended. `why` is null if it went well, and good for the duration of
 * the call. The lease may be released on any thread. */
typedef void (*cenote_on_acquired)(void* context, cenote_code code, cenote_lease lease,
                                   void* resource, const cenote_failure* why);

/* Waits without a thread. If this returns OK, `done` is called exactly once: on the thread that
 * gives a resource back, on one of the pool's, on one that closes it or cancels, or on this one,
 * before this returns; one at a time on a thread, unless it destroys or closes a pool. It must be
 * quick. `request`, unless null: for cenote_cancel. `wish` may be null. If this fails, with
 * NO_MEMORY or SYSTEM, `done` is not called.
 */
CENOTE_API cenote_code cenote_acquire_async(cenote_pool pool, const cenote_wish* wish,
                                            cenote_on_acquired done, void* context,
                                            cenote_request* request);

/* Ends the wait: `done` is called with CANCELED, possibly before this returns, or with whatever
 * came first. STALE_HANDLE: it has been called already, or is being called. */
CENOTE_API cenote_code cenote_cancel(cenote_pool pool, cenote_request request);

/* The resource of a lease. It is good until the lease ends. */
CENOTE_API cenote_code cenote_resource(cenote_lease lease, void** resource);

/* Ends the lease; the resource goes to the next. Never waits. */
CENOTE_API cenote_code cenote_release(cenote_lease lease);

/* Ends the lease, and the resource with it: it is closed, not kept. */
CENOTE_API cenote_code cenote_discard(cenote_lease lease);

/* Has the resource reset before anybody else gets it; without a `reset` it is closed instead. The
 * lease goes on. */
CENOTE_API cenote_code cenote_mark_dirty(cenote_lease lease);

/* Ends the lease after an error. KEEP: as cenote_release. RESET: marked dirty before. DISCARD,
 * FINAL: as cenote_discard, and a failure to the circuit breaker. SUSPECT: the same, and whatever
 * is as old is probed before it is lent again. RESET_LATER: as RESET. INVALID_ARGUMENT for any
 * other: the lease goes on. */
CENOTE_API cenote_code cenote_release_as(cenote_lease lease, cenote_verdict verdict);

/* Ends the lease, and takes the resource out of the pool: it is the caller's now, who must close
 * it. */
CENOTE_API cenote_code cenote_detach(cenote_lease lease, void** resource);

/* ---- Control -------------------------------------------------------------------------------- */

/* Everything open now is closed: the idle a few at a time, the leased when they come back. New ones
 * take over. For a failover, or after the server's settings changed. */
CENOTE_API cenote_code cenote_retire_all(cenote_pool pool);

/* Everything open now is probed before it is lent again; without a `probe`: retired. */
CENOTE_API cenote_code cenote_suspect_all(cenote_pool pool);

/* From now on at most `max` are open. Nobody loses a lease. INVALID_OPTION: not at least 1,
 * min_size and min_idle. */
CENOTE_API cenote_code cenote_resize(cenote_pool pool, uint64_t max);

/* Lends nothing until cenote_resume; who waits keeps its place and its time. */
CENOTE_API cenote_code cenote_pause(cenote_pool pool);
CENOTE_API cenote_code cenote_resume(cenote_pool pool);

/* The circuit breaker by hand, from any state to any state. */
CENOTE_API cenote_code cenote_activate(cenote_pool pool);
CENOTE_API cenote_code cenote_deactivate(cenote_pool pool);
CENOTE_API cenote_code cenote_recover(cenote_pool pool, uint64_t probes);
CENOTE_API cenote_code cenote_breaker_now(cenote_pool pool, cenote_breaker_state* state);

/* When it may be worth while for somebody to come again who was refused. An estimate. */
CENOTE_API cenote_code cenote_retry_after(cenote_pool pool, int64_t* wait);

/* ---- A look --------------------------------------------------------------------------------- */

typedef int32_t cenote_pool_state;
enum { CENOTE_LENDING = 0, CENOTE_PAUSED = 1, CENOTE_POOL_CLOSED = 2 };

/* Reasons have room for those to come; a reason is its own index, a code counts at code - 1. */
#define CENOTE_REASONS_MAX 16
#define CENOTE_BUCKETS 168

/* One consistent look: total = leased + idle + opening + probing + resetting + closing <= max
 * unless a resize has left more; acquires = granted + waiting + the sum of `refused`; granted =
 * released + detached + leased. What each counts: <cenote/stats.hpp>. */
typedef struct cenote_stats {
    size_t size;
    cenote_pool_state state;
    cenote_breaker_state breaker;
    uint64_t max;
    uint64_t total;
    uint64_t leased;
    uint64_t idle;
    uint64_t opening;
    uint64_t probing;
    uint64_t resetting;
    uint64_t closing;
    uint64_t waiting;
    uint64_t acquires;
    uint64_t granted;
    uint64_t waited;
    uint64_t released;
    uint64_t discarded;
    uint64_t detached;
    uint64_t opened;
    uint64_t open_failed;
    uint64_t closed;
    uint64_t abandoned;
    uint64_t events_lost;
    uint64_t try_empty;
    uint64_t leaks;
    uint64_t retired[CENOTE_REASONS_MAX];
    uint64_t refused[CENOTE_REASONS_MAX];
    /* Durations; see cenote_quantile. */
    uint64_t wait[CENOTE_BUCKETS];
    uint64_t hold[CENOTE_BUCKETS];
    uint64_t open[CENOTE_BUCKETS];
    uint64_t refused_after_wait;
} cenote_stats;

/* Takes no lock that an acquire needs. The caller sets `size`. */
CENOTE_API cenote_code cenote_look(cenote_pool pool, cenote_stats* stats);

/* An upper bound for the value below which the fraction `q` (0 to 1) of what was counted lies; zero
 * if nothing was. `buckets`: one of the three of cenote_stats, or the difference of two looks. */
CENOTE_API int64_t cenote_quantile(const uint64_t* buckets, double q);
/* The largest value that a bucket counts. */
CENOTE_API int64_t cenote_bucket_bound(size_t bucket);

/* One number of a look, for who needs no more. */
typedef int32_t cenote_counter;
enum {
    CENOTE_COUNT_MAX = 0,
    CENOTE_COUNT_TOTAL = 1,
    CENOTE_COUNT_LEASED = 2,
    CENOTE_COUNT_IDLE = 3,
    CENOTE_COUNT_OPENING = 4,
    CENOTE_COUNT_PROBING = 5,
    CENOTE_COUNT_RESETTING = 6,
    CENOTE_COUNT_CLOSING = 7,
    CENOTE_COUNT_WAITING = 8,
    CENOTE_COUNT_ACQUIRES = 9,
    CENOTE_COUNT_GRANTED = 10,
    CENOTE_COUNT_WAITED = 11,
    CENOTE_COUNT_RELEASED = 12,
    CENOTE_COUNT_DISCARDED = 13,
    CENOTE_COUNT_DETACHED = 14,
    CENOTE_COUNT_OPENED = 15,
    CENOTE_COUNT_OPEN_FAILED = 16,
    CENOTE_COUNT_CLOSED = 17,
    CENOTE_COUNT_ABANDONED = 18,
    CENOTE_COUNT_EVENTS_LOST = 19,
    CENOTE_COUNT_TRY_EMPTY = 20,
    CENOTE_COUNT_LEAKS = 21,
    CENOTE_COUNT_REFUSED = 22, /* for all reasons */
    CENOTE_COUNT_RETIRED = 23, /* for all reasons */
    CENOTE_COUNT_REFUSED_AFTER_WAIT = 24
};

CENOTE_API cenote_code cenote_count(cenote_pool pool, cenote_counter which, uint64_t* value);

/* Who holds a lease. */
typedef struct cenote_holder {
    size_t size;
    uint64_t resource; /* the number it has in events */
    int64_t held;      /* for how long, at least; zero: not known yet */
    const char* task;  /* cenote_wish.task, or null */
} cenote_holder;

/* Fills in at most `room` of them, oldest first; `count`: how many there are. The caller sets
 * the `size` of the first. `holders` may be null if `room` is zero. */
CENOTE_API cenote_code cenote_holders(cenote_pool pool, cenote_holder* holders, size_t room,
                                      size_t* count);

/* Of the library that is running, not of this header. */
CENOTE_API const char* cenote_version(void);

#ifdef __cplusplus
}
#endif

#endif

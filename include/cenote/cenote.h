/* The C API: pools for C and for any language that can call C. Library `libcenote.so`.
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
 * Handles. Pools, leases and requests are integers that are never reused. A released, unknown,
 * mistyped or zero handle yields CENOTE_STALE_HANDLE or CENOTE_INVALID_HANDLE, at any time and on
 * any thread, and has no other effect.
 *
 * Codes. Every function returns CENOTE_OK or the reason of its failure. A function that fails has
 * no effect unless documented otherwise, and sets its output parameters to zero. Codes, states and
 * other enumerations are int32_t, so that values added by later versions are well-defined, in C++
 * too.
 *
 * Times are in nanoseconds. CENOTE_FOREVER disables a limit.
 *
 * Versions. Structures begin with their size, which the program sets to `sizeof`. So programs and
 * libraries of different versions work together: the library assumes the defaults of members that
 * the program does not know, and zeroes members that it does not know itself. A program that sets
 * such a member gets CENOTE_INVALID_ARGUMENT.
 *
 * Thread safety. Every function may be called from any thread at any time, also concurrently with
 * the same handle, and from callbacks, unless documented otherwise. If several threads end one
 * handle, one of them succeeds and the others get CENOTE_STALE_HANDLE.
 *
 * Callbacks must return: they must not end their thread. A C++ exception thrown by a callback
 * counts as a failure of a callback that can fail, and ends the program otherwise. No function of
 * this library throws. A callback may access a structure up to the structure's `size`.
 *
 * Compiles as C11 and as C++. The C++ API offers more: <cenote/pool.hpp>. */
#ifndef CENOTE_CENOTE_H
#define CENOTE_CENOTE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CENOTE_API __attribute__((visibility("default")))

/* Handles. No handle is zero, so zero can mean none. */
typedef uint64_t cenote_pool;
typedef uint64_t cenote_lease;
typedef uint64_t cenote_request;

#define CENOTE_FOREVER INT64_MAX         /* disables a time limit */
#define CENOTE_UNLIMITED UINT64_MAX      /* disables a count limit */
#define CENOTE_DEFAULT_TIMEOUT INT64_MIN /* cenote_options.acquire_timeout */

/* The present source line as "file.c:88", for cenote_acquire_options.task. */
#define CENOTE_HERE __FILE__ ":" CENOTE_TEXT_OF_(__LINE__)
#define CENOTE_TEXT_OF_(what) CENOTE_TEXT_OF_THIS_(what)
#define CENOTE_TEXT_OF_THIS_(what) #what

/* ---- Errors --------------------------------------------------------------------------------- */

typedef int32_t cenote_code;
enum {
    CENOTE_OK = 0,

    /* An acquire was refused. */
    CENOTE_TIMED_OUT = 1,   /* The timeout expired. The pool may be healthy, just busy. */
    CENOTE_CLOSED = 2,      /* The pool is closed. */
    CENOTE_UNAVAILABLE = 3, /* The circuit breaker is inactive. */
    CENOTE_LINE_FULL = 4,   /* `line_max` waiters, or cenote_acquire_options.no_queue is set. */
    CENOTE_SHED = 5,        /* Refused early because the line is overloaded; see shed_target. */
    CENOTE_CANCELED = 6,    /* By cenote_cancel. */
    CENOTE_OPEN_FAILED = 7, /* The resource that the acquire needed could not be opened. */
    CENOTE_DEADLOCK = 8, /* The wait would never end: all leases are held by threads that wait for
                            this pool (see refuse_deadlock), or a callback of the pool waits for
                            the pool to end. */

    CENOTE_EMPTY = 32,            /* cenote_try_acquire: no resource is ready. */
    CENOTE_INVALID_ARGUMENT = 33, /* A null pointer, or an invalid size or value. */
    CENOTE_INVALID_OPTION = 34,   /* An option is invalid; the failure's text names it. */
    CENOTE_INVALID_HANDLE = 35,   /* Never was a handle of that kind. */
    CENOTE_STALE_HANDLE = 36,     /* Was a handle: released, destroyed or completed since. */
    CENOTE_NO_MEMORY = 37,        /* Out of memory. */
    CENOTE_SYSTEM = 38,           /* A system call failed, for example to start a thread. */
    CENOTE_INTERNAL = 39          /* A bug in the library. */
};

/* A sentence for a code, and its name ("timed_out"). Never null, even for unknown codes. Static
 * storage. */
CENOTE_API const char* cenote_text(cenote_code code);
CENOTE_API const char* cenote_word(cenote_code code);

#define CENOTE_TEXT_MAX 512

/* The details of a failure. As an output of a callback: set `cause` and `text`; both are optional.
 * As an output of a function: set `size` before; the function sets all members. Texts that are too
 * long are truncated. */
typedef struct cenote_failure {
    size_t size;
    cenote_code code;
    int32_t cause;       /* The `cause` of the last failed open, or zero. */
    int64_t retry_after; /* For UNAVAILABLE, LINE_FULL, SHED: estimated delay before a retry. */
    char text[CENOTE_TEXT_MAX]; /* Holders, number of waiters, last failed open. */
} cenote_failure;

/* What a callback decides about a resource. Any number not listed here means DISCARD. */
typedef int32_t cenote_verdict;
enum {
    CENOTE_KEEP = 0,       /* Usable. */
    CENOTE_RESET = 1,      /* Usable after a reset, which the pool makes now. */
    CENOTE_DISCARD = 2,    /* Broken: close it. From `open`: try again later. */
    CENOTE_FINAL = 3,      /* Broken, and opening another one would fail as well. */
    CENOTE_SUSPECT = 4,    /* Broken, and older resources may be as well: the server restarted. */
    CENOTE_RESET_LATER = 5 /* From `before_release`: usable after a reset, which the next borrower
                            * makes, or the pool after `reset_after` idle. */
};

/* ---- The connector -------------------------------------------------------------------------- */

/* The callbacks that manage resources. Only `open` is required. cenote_create copies the structure.
 *
 * `context` is the first argument of each callback. It must live until `end` was called.
 *
 * open, probe, reset and close may block. They run on threads of the pool, each with its timeout
 * (cenote_options), several at once but never two for one resource. The other callbacks run on the
 * thread that needs them, often a borrower's, and must be quick. Callbacks may call this library,
 * but must not destroy their pool or wait for it to close. */
typedef struct cenote_connector {
    size_t size;
    void* context;

    /* Opens a resource. Returns CENOTE_KEEP and sets `resource`, not to null; or returns
     * CENOTE_FINAL for a permanent failure, any other number for a temporary one. May set `cause`
     * and `text` of `why`. */
    int (*open)(void* context, void** resource, cenote_failure* why);
    /* Closes and frees the resource; the library does not use it again. */
    void (*close)(void* context, void* resource);
    /* Whether the resource works: zero if it does. May set `why`, which observers get. */
    int (*probe)(void* context, void* resource, cenote_failure* why);
    /* Restores the state of a new resource. Returns zero for success. May set `why`. */
    int (*reset)(void* context, void* resource, cenote_failure* why);
    /* Called before every lease. Zero: lend the resource. Otherwise it is closed, and another one
     * is lent. */
    int (*before_acquire)(void* context, void* resource);
    /* Called at the end of every lease. Returns a cenote_verdict. Without a `reset`, RESET_LATER
     * closes the resource and reports it to observers. */
    int (*before_release)(void* context, void* resource);
    /* Called in the child of a fork instead of `close`: frees the child's copy without using the
     * connection, which belongs to the parent. If null, the copy stays open. */
    void (*forsake)(void* context, void* resource);
    /* Called once, after the last call of any other callback: in cenote_destroy, in a cenote_create
     * that fails, or later if a call has exceeded its timeout and still runs. Not called if
     * cenote_create rejects the structure itself: an invalid size, or no `open`. */
    void (*end)(void* context);
} cenote_connector;

/* ---- Events and circuit breaker ------------------------------------------------------------- */

typedef int32_t cenote_breaker_state;
enum {
    CENOTE_ACTIVE = 0,    /* Normal operation. */
    CENOTE_INACTIVE = 1,  /* Every acquire is refused with CENOTE_UNAVAILABLE. */
    CENOTE_RECOVERING = 2 /* A few acquires are allowed, all others are refused. */
};

typedef int32_t cenote_event_kind;
enum {
    CENOTE_EVENT_OPENED = 0,      /* `took` */
    CENOTE_EVENT_OPEN_FAILED = 1, /* `cause`, `text`, `took` */
    CENOTE_EVENT_ACQUIRED = 2,    /* `took`: how long the acquire waited */
    CENOTE_EVENT_RELEASED = 3,    /* `took`: how long the lease lasted */
    CENOTE_EVENT_DISCARDED = 4,
    CENOTE_EVENT_DETACHED = 5,
    CENOTE_EVENT_RETIRED = 6,      /* `reason` */
    CENOTE_EVENT_PROBE_FAILED = 7, /* `cause`, `text` */
    CENOTE_EVENT_RESET_FAILED = 8, /* `cause`, `text` */
    CENOTE_EVENT_CLOSED = 9,
    CENOTE_EVENT_EXHAUSTED = 10,       /* an acquire will be refused; `code`, `took`, `task` */
    CENOTE_EVENT_LOOP_BLOCKED = 11,    /* never in pools of the C API */
    CENOTE_EVENT_NESTED_ACQUIRE = 12,  /* a thread that holds a lease waits for another */
    CENOTE_EVENT_LEAK_SUSPECTED = 13,  /* a lease exceeds leak_after; `took`, `task` */
    CENOTE_EVENT_BREAKER_CHANGED = 14, /* `breaker` */
    CENOTE_EVENT_PAUSED = 15,
    CENOTE_EVENT_RESUMED = 16,
    CENOTE_EVENT_CLOSING = 17,
    CENOTE_EVENT_CLOSED_POOL = 18,
    CENOTE_EVENT_WAITED = 19 /* an acquire that had to wait was granted; `took`, `task` */
};

typedef int32_t cenote_retire_reason;
enum {
    CENOTE_RETIRED_IDLE = 0,
    CENOTE_RETIRED_AGE = 1,
    CENOTE_RETIRED_USES = 2,
    CENOTE_RETIRED_GENERATION = 3, /* older than the last cenote_retire_all */
    CENOTE_RETIRED_PROBE_FAILED = 4,
    CENOTE_RETIRED_RESET_FAILED = 5,
    CENOTE_RETIRED_REJECTED = 6, /* by before_acquire or before_release */
    CENOTE_RETIRED_SURPLUS = 7   /* above `max` after cenote_resize */
};

/* Their names, never null. Static storage. */
CENOTE_API const char* cenote_event_word(cenote_event_kind kind);
CENOTE_API const char* cenote_retire_word(cenote_retire_reason reason);
CENOTE_API const char* cenote_breaker_word(cenote_breaker_state state);

/* An event. Only the members listed at its kind are meaningful, besides `pool` and `resource`.
 * Texts are valid during the call. */
typedef struct cenote_event {
    size_t size;
    cenote_event_kind kind;
    cenote_retire_reason reason;
    cenote_code code;
    cenote_breaker_state breaker;
    const char* pool;  /* name of the pool */
    uint64_t resource; /* number of the resource, unique in the pool; 0: none */
    int64_t took;
    int32_t cause;    /* the callback's `cause` */
    const char* text; /* the callback's `text`; empty: none */
    const char* task; /* cenote_acquire_options.task, or null */
} cenote_event;

/* Bits for cenote_observer.wants. ACQUIRED and RELEASED are expensive: a pool that reports every
 * lease takes its lock for every lease. Later versions may report kinds with greater numbers to an
 * observer that wants all. */
#define CENOTE_WANTS(kind) (UINT64_C(1) << (kind))
#define CENOTE_WANTS_ALL UINT64_MAX
#define CENOTE_WANTS_ALL_BUT_LEASES \
    (UINT64_MAX ^ CENOTE_WANTS(CENOTE_EVENT_ACQUIRED) ^ CENOTE_WANTS(CENOTE_EVENT_RELEASED))

/* Gets the events of a pool, in order, one at a time, on a thread of the pool; EXHAUSTED on the
 * thread of the refused acquire. If an observer is too slow, events are dropped and counted in
 * `events_lost`. It is not called after cenote_destroy. cenote_create copies the structure. */
typedef struct cenote_observer {
    size_t size;
    void* context;
    uint64_t wants;
    void (*on_event)(void* context, const cenote_event* what);
} cenote_observer;

/* A transition of the circuit breaker. */
typedef struct cenote_breaker_move {
    size_t size;
    cenote_breaker_state to;
    int64_t cool_down; /* To INACTIVE: the time until `cooled_down` is called. */
    uint64_t probes;   /* To RECOVERING: the maximum number of leases at a time. */
} cenote_breaker_move;

/* The argument of a breaker strategy, valid during the call. */
typedef struct cenote_breaker_report {
    size_t size;
    const char* pool;           /* Name of the pool. */
    cenote_breaker_state state; /* The present state. */
    uint64_t count;             /* For `succeeded`: successes since the last report. */
    int64_t at;                 /* Time of the event, by CLOCK_MONOTONIC. */
    const char* text;           /* For `failed`: the text of the error, or null. */
} cenote_breaker_report;

/* A strategy for the circuit breaker. Each function returns zero to stay in the present state, or
 * another number to move to the state it has set in `go`, whose defaults are a cool-down of a
 * second and one probe.
 *
 * A success is a released and accepted lease; successful opens are not reported. A failure is a
 * failed open or probe, a rejected lease, or a lease released as DISCARD or worse. In the state
 * ACTIVE successes are reported in sums: before each failure, and otherwise every 100 ms or at the
 * next sweep.
 *
 * Called from any thread, one call at a time, in the order of the events. cenote_create copies the
 * structure; `context` must live until the connector's `end`. */
typedef struct cenote_breaker {
    size_t size;
    void* context;
    int (*succeeded)(void* context, const cenote_breaker_report* what, cenote_breaker_move* go);
    int (*failed)(void* context, const cenote_breaker_report* what, cenote_breaker_move* go);
    /* The cool-down has passed. Null: moves to RECOVERING. */
    int (*cooled_down)(void* context, const cenote_breaker_report* what, cenote_breaker_move* go);
} cenote_breaker;

/* The built-in strategy: INACTIVE after `failures` in a row, RECOVERING with `probes` leases after
 * `cool_down`, ACTIVE after `successes` in that state. */
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
    CENOTE_WARM_UP_BACKGROUND = 0, /* Starts to open the minimum and returns at once. */
    CENOTE_WARM_UP_WAIT = 1,       /* Returns when the minimum is open, or OPEN_FAILED. */
    CENOTE_WARM_UP_NONE = 2        /* Opens nothing before the first acquire. */
};

typedef int32_t cenote_order;
enum { CENOTE_LIFO = 0, CENOTE_FIFO = 1 };

typedef int32_t cenote_fairness;
enum { CENOTE_STRICT = 0, CENOTE_BOUNDED = 1, CENOTE_TURNS = 2 };

/* After a failed open, waiters keep waiting or are refused at once with OPEN_FAILED. */
typedef int32_t cenote_open_errors;
enum { CENOTE_OPEN_ERRORS_RETRY = 0, CENOTE_OPEN_ERRORS_FAIL_FAST = 1 };

typedef int32_t cenote_priority;
enum {
    CENOTE_PRIORITY_RESERVED = 0, /* Before all others, for health checks and administration. */
    CENOTE_PRIORITY_HIGH = 1,
    CENOTE_PRIORITY_NORMAL = 2,
    CENOTE_PRIORITY_LOW = 3
};

/* The options of a pool. Initialize with cenote_options_init, which sets the defaults listed here;
 * <cenote/options.hpp> says what each option means and when to change it. */
typedef struct cenote_options {
    size_t size;
    const char* name;                  /* "pool"; for errors and events */
    uint64_t max;                      /* 10; the maximum open at any instant */
    uint64_t min_size;                 /* 0; the minimum kept open */
    uint64_t min_idle;                 /* 0; the minimum kept idle */
    cenote_warm_up warm_up;            /* BACKGROUND */
    cenote_order order;                /* LIFO; which idle resource is lent next */
    cenote_fairness fairness;          /* TURNS */
    int32_t probe_on_release;          /* 0 */
    int32_t refuse_deadlock;           /* 0; set 1 if threads release the leases they acquired */
    cenote_open_errors open_errors;    /* RETRY */
    int64_t acquire_timeout;           /* 5 s; of a whole acquire */
    int64_t open_timeout;              /* 10 s; of one call, like the three below */
    int64_t probe_timeout;             /* 1 s */
    int64_t reset_timeout;             /* 1 s */
    int64_t close_timeout;             /* 1 s */
    uint64_t opening_max;              /* 4; concurrent opens */
    uint64_t open_rate;                /* UNLIMITED; opens per second */
    uint64_t open_burst;               /* 1 */
    int64_t idle_timeout;              /* 5 min */
    int64_t max_lifetime;              /* 30 min */
    double lifetime_jitter;            /* 0.1 */
    uint64_t max_uses;                 /* UNLIMITED */
    int64_t sweep_interval;            /* 1 s */
    int64_t probe_after_idle;          /* 5 s */
    int64_t heartbeat;                 /* FOREVER */
    int64_t leak_after;                /* 30 s; then observers get LEAK_SUSPECTED */
    int64_t bypass_for;                /* 1 ms; with BOUNDED */
    uint64_t line_max;                 /* 10 000; more waiters are refused with LINE_FULL */
    int64_t head_start;                /* 1 s; of each priority over the next lower one */
    int64_t shed_target;               /* FOREVER; refuse with SHED what would wait longer */
    int64_t shed_interval;             /* 100 ms */
    int64_t backoff_first;             /* 20 ms; between failed opens */
    int64_t backoff_cap_waiting;       /* 200 ms */
    int64_t backoff_cap_idle;          /* 5 s */
    uint64_t seed;                     /* 0: from the system */
    const cenote_observer* observer;   /* null: none */
    const cenote_breaker* breaker;     /* null: manual control, or `threshold` */
    const cenote_threshold* threshold; /* null: none; excludes `breaker` */
    int64_t reset_after; /* 50 ms; the idle time after which RESET_LATER resets a resource */
} cenote_options;

/* Sets `size` bytes, to the default of each option the library knows and to zero otherwise. `size`:
 * sizeof(cenote_options). Fails with INVALID_ARGUMENT. */
CENOTE_API cenote_code cenote_options_init(cenote_options* options, size_t size);
/* Like cenote_options_init; the defaults are 5 failures, a second, 1 probe, 1 success. */
CENOTE_API cenote_code cenote_threshold_init(cenote_threshold* threshold, size_t size);

/* ---- The pool ------------------------------------------------------------------------------- */

/* Makes a pool. `options`: null for the defaults. `why`: null or an output. Fails with
 * INVALID_ARGUMENT, INVALID_OPTION, NO_MEMORY, SYSTEM, and with warm_up WAIT also OPEN_FAILED, with
 * the callback's text in `why`. Callbacks may run before this returns, hence before `pool` is
 * set. */
CENOTE_API cenote_code cenote_create(const cenote_connector* connector,
                                     const cenote_options* options, cenote_pool* pool,
                                     cenote_failure* why);

/* Closes and destroys the pool. Refuses its waiters with CLOSED; waits for other calls on this pool
 * to return, for calls of the connector (each at most until its timeout) and for the observer. Then
 * the handle is stale and no callback runs, except for a call that has exceeded its timeout (see
 * cenote_connector.end).
 *
 * Remaining leases become stale: their resources now belong to their holders, who must close them.
 * `left`: null, or the number of these leases. Call cenote_close with a timeout before, unless each
 * holder knows its resource and closes it.
 *
 * Fails with DEADLOCK if this thread is inside a callback of this pool or inside another call on
 * it, and for an invalid handle. */
CENOTE_API cenote_code cenote_destroy(cenote_pool pool, size_t* left);

/* Closes the pool: refuses new acquires and all waiters with CLOSED, closes idle resources now and
 * leased ones at the end of their leases. Waits until all are closed, at most for `timeout` (0:
 * does not wait). `left`: null, or the number of leases that remain. May be called repeatedly. With
 * a timeout it fails with DEADLOCK if this thread is inside a callback of this pool or inside
 * another call on it; the pool is closed nevertheless. */
CENOTE_API cenote_code cenote_close(cenote_pool pool, int64_t timeout, size_t* left);

/* Waits until the minimum is open, and starts to open it if `warm_up` did not. Fails with
 * TIMED_OUT, CLOSED, or OPEN_FAILED if the last open failed. */
CENOTE_API cenote_code cenote_wait_ready(cenote_pool pool, int64_t timeout);

/* ---- Acquire and release -------------------------------------------------------------------- */

/* Acquires a resource. Waits at most for `timeout`, which may be CENOTE_DEFAULT_TIMEOUT; for 0 or
 * less it does not wait, and fails with TIMED_OUT if no resource is ready. `resource`: null, or
 * what `open` made. Fails with any of the codes 1 to 8, NO_MEMORY, SYSTEM. */
CENOTE_API cenote_code cenote_acquire(cenote_pool pool, int64_t timeout, cenote_lease* lease,
                                      void** resource);

/* Options of one acquire. Initialize with CENOTE_ACQUIRE_OPTIONS: with all members zero it would
 * have the priority RESERVED and not wait. */
typedef struct cenote_acquire_options {
    size_t size;
    int64_t timeout; /* How long to wait, or CENOTE_DEFAULT_TIMEOUT. */
    cenote_priority priority;
    int32_t no_queue; /* 1: do not wait for other leases; LINE_FULL if all are in use. */
    /* The purpose of the lease, for leak reports and texts of failures; or null. Not copied: must
     * live as long as the pool, like a literal or CENOTE_HERE. */
    const char* task;
    int64_t leak_after; /* Overrides cenote_options.leak_after; 0: does not. */
} cenote_acquire_options;

#define CENOTE_ACQUIRE_OPTIONS \
    {sizeof(cenote_acquire_options), CENOTE_DEFAULT_TIMEOUT, CENOTE_PRIORITY_NORMAL, 0, NULL, 0}

/* cenote_acquire with options and details of a failure. `options` and `why` may be null. */
CENOTE_API cenote_code cenote_acquire_with(cenote_pool pool, const cenote_acquire_options* options,
                                           cenote_lease* lease, void** resource,
                                           cenote_failure* why);

/* Acquires a resource if one is ready. Never waits, and calls no callback except before_acquire.
 * Fails with EMPTY, also if the pool is closed. */
CENOTE_API cenote_code cenote_try_acquire(cenote_pool pool, cenote_lease* lease, void** resource);

/* Receives the result of an asynchronous acquire. `why` is null for success, and valid during the
 * call otherwise. The lease may be released on any thread. */
typedef void (*cenote_on_acquired)(void* context, cenote_code code, cenote_lease lease,
                                   void* resource, const cenote_failure* why);

/* Acquires a resource without blocking a thread. If this returns OK, `done` is called exactly once:
 * on a thread that releases a resource, closes the pool or cancels the request, on a thread of the
 * pool, or on this thread before this call returns. On one thread these calls are not
 * nested, unless one of them destroys or closes a pool. `done` must be quick. `request`: null, or
 * the handle for cenote_cancel. `options` may be null. If this fails, with NO_MEMORY or SYSTEM,
 * `done` is not called. */
CENOTE_API cenote_code cenote_acquire_async(cenote_pool pool, const cenote_acquire_options* options,
                                            cenote_on_acquired done, void* context,
                                            cenote_request* request);

/* Cancels an asynchronous acquire: `done` is called with CANCELED, possibly before this returns, or
 * with another result that came first. STALE_HANDLE: `done` was called, or is running. */
CENOTE_API cenote_code cenote_cancel(cenote_pool pool, cenote_request request);

/* The resource of a lease, valid until the lease ends. */
CENOTE_API cenote_code cenote_resource(cenote_lease lease, void** resource);

/* Ends the lease and returns the resource to the pool. Never waits. */
CENOTE_API cenote_code cenote_release(cenote_lease lease);

/* Ends the lease; the resource is closed. */
CENOTE_API cenote_code cenote_discard(cenote_lease lease);

/* Has the resource reset when its lease ends, or closed if there is no `reset`. The lease
 * continues. */
CENOTE_API cenote_code cenote_mark_dirty(cenote_lease lease);

/* Ends the lease after an error. KEEP: like cenote_release. RESET, RESET_LATER: like
 * cenote_mark_dirty and cenote_release. DISCARD, FINAL: like cenote_discard, and the circuit
 * breaker counts a failure. SUSPECT: like DISCARD, and resources that are as old are probed before
 * they are lent again. INVALID_ARGUMENT for any other verdict; the lease continues. */
CENOTE_API cenote_code cenote_release_as(cenote_lease lease, cenote_verdict verdict);

/* Ends the lease and takes the resource out of the pool. The caller must close it. */
CENOTE_API cenote_code cenote_detach(cenote_lease lease, void** resource);

/* ---- Control -------------------------------------------------------------------------------- */

/* Closes all open resources, idle ones a few at a time and leased ones at the end of their leases;
 * new ones replace them. For a failover, or after a change of the server's settings. */
CENOTE_API cenote_code cenote_retire_all(cenote_pool pool);

/* Probes all open resources before they are lent again; retires them if there is no `probe`. */
CENOTE_API cenote_code cenote_suspect_all(cenote_pool pool);

/* Sets the maximum number of resources. Leases continue. INVALID_OPTION if `max` is less than 1,
 * min_size or min_idle. */
CENOTE_API cenote_code cenote_resize(cenote_pool pool, uint64_t max);

/* Grants no lease until cenote_resume. Waiters keep their place and timeout. */
CENOTE_API cenote_code cenote_pause(cenote_pool pool);
CENOTE_API cenote_code cenote_resume(cenote_pool pool);

/* Moves the circuit breaker to a state, from any state. */
CENOTE_API cenote_code cenote_activate(cenote_pool pool);
CENOTE_API cenote_code cenote_deactivate(cenote_pool pool);
CENOTE_API cenote_code cenote_recover(cenote_pool pool, uint64_t probes);

/* Reads the state of the circuit breaker. */
CENOTE_API cenote_code cenote_breaker_now(cenote_pool pool, cenote_breaker_state* state);

/* The estimated delay after which a refused caller should retry. */
CENOTE_API cenote_code cenote_retry_after(cenote_pool pool, int64_t* wait);

/* ---- Statistics ----------------------------------------------------------------------------- */

typedef int32_t cenote_pool_state;
enum { CENOTE_LENDING = 0, CENOTE_PAUSED = 1, CENOTE_POOL_CLOSED = 2 };

/* Reasons index `retired`, and code - 1 indexes `refused`; both have room for later reasons. */
#define CENOTE_REASONS_MAX 16
#define CENOTE_BUCKETS 168

/* A consistent snapshot: total = leased + idle + opening + probing + resetting + closing <= max,
 * unless a resize has left more; acquires = granted + waiting + the sum of `refused`; granted =
 * released + detached + leased. <cenote/stats.hpp> explains each member. */
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
    /* Histograms of durations; see cenote_quantile. */
    uint64_t wait[CENOTE_BUCKETS];
    uint64_t hold[CENOTE_BUCKETS];
    uint64_t open[CENOTE_BUCKETS];
    uint64_t refused_after_wait;
} cenote_stats;

/* Reads all statistics. Set `size` before. Takes no lock that an acquire needs. */
CENOTE_API cenote_code cenote_look(cenote_pool pool, cenote_stats* stats);

/* An upper bound of the quantile `q` (0 to 1); zero for an empty histogram. `buckets`: a histogram
 * of cenote_stats, or the difference of two. */
CENOTE_API int64_t cenote_quantile(const uint64_t* buckets, double q);
/* The largest value that a bucket counts. */
CENOTE_API int64_t cenote_bucket_bound(size_t bucket);

/* The counters that cenote_count reads. */
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
    CENOTE_COUNT_REFUSED = 22, /* sum of all reasons */
    CENOTE_COUNT_RETIRED = 23, /* sum of all reasons */
    CENOTE_COUNT_REFUSED_AFTER_WAIT = 24
};

/* Reads one counter of cenote_stats. */
CENOTE_API cenote_code cenote_count(cenote_pool pool, cenote_counter which, uint64_t* value);

/* A current lease. */
typedef struct cenote_holder {
    size_t size;
    uint64_t resource; /* number of the resource, as in events */
    int64_t held;      /* lower bound of the time; zero: not known yet */
    const char* task;  /* cenote_acquire_options.task, or null */
} cenote_holder;

/* Lists current leases, longest-held first; those of unknown age come last. Writes at most `room`
 * elements; `count`: the number of leases. Set `size` of the first element before. `holders` may be
 * null if `room` is zero. */
CENOTE_API cenote_code cenote_holders(cenote_pool pool, cenote_holder* holders, size_t room,
                                      size_t* count);

/* The version of the loaded library, which may differ from that of this header. */
CENOTE_API const char* cenote_version(void);

#ifdef __cplusplus
}
#endif

#endif

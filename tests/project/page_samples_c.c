/* The code of docs/guide/c-api.md, so that it compiles; see page_samples.cpp. */
#include <cenote/cenote.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct session;
struct session* session_connect(void* config);
void session_close(void* session);
void session_use(void* session);
void die(const char* why);
extern int config;

static int open_session(void* context, void** resource, cenote_failure* why) {
    struct session* s = session_connect(context);
    if (s == NULL) {
        why->cause = errno;                        /* passed to the caller as code and text */
        snprintf(why->text, sizeof why->text, "cannot connect: %s", strerror(errno));
        return errno == EACCES ? CENOTE_FINAL      /* will never work */
                               : CENOTE_DISCARD;   /* try again later */
    }
    *resource = s;
    return CENOTE_KEEP;
}

static void close_session(void* context, void* resource) { session_close(resource); }

void whole(void) {
    cenote_connector connector = {.size = sizeof connector, .context = &config,
                                  .open = open_session, .close = close_session};
    cenote_options options;
    cenote_options_init(&options, sizeof options);     /* the defaults */
    options.max = 32;

    cenote_pool pool;
    cenote_failure why = {.size = sizeof why};
    if (cenote_create(&connector, &options, &pool, &why) != CENOTE_OK) die(why.text);

    cenote_lease lease;
    void* session;
    if (cenote_acquire(pool, CENOTE_DEFAULT_TIMEOUT, &lease, &session) == CENOTE_OK) {
        session_use(session);
        cenote_release(lease);
    }
    cenote_close(pool, 5000000000, NULL);              /* wait five seconds for leases */
    cenote_destroy(pool, NULL);
}

static void done(void* context, cenote_code code, cenote_lease lease, void* resource,
                 const cenote_failure* why);

static void done(void* context, cenote_code code, cenote_lease lease, void* resource,
                 const cenote_failure* why) {}

void asynchronous(cenote_pool pool, void* context) {
    cenote_request request;
    cenote_acquire_async(pool, NULL, done, context, &request);
    cenote_cancel(pool, request);                      /* done is called with CENOTE_CANCELED */
}

/* In the child of a fork a pool starts again, and forsakes the resources of the parent. */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

/* By default the thread sanitizer ends a forked child that starts threads. */
const char* __tsan_default_options(void);
const char* __tsan_default_options(void) { return "die_after_fork=0"; }

static atomic_int forsaken;

static void forsake(void* context, void* resource) {
    (void)context;
    CHECK(((thing*)resource)->number > 0);
    ++forsaken;
}

static void child(cenote_pool pool, cenote_lease parents, workshop* w) {
    int closed = w->closed, opened = w->opened;
    cenote_lease mine = lease_from(pool);
    void* resource;
    CHECK_OK(cenote_resource(mine, &resource));
    CHECK(((thing*)resource)->number == opened + 1);
    CHECK_OK(cenote_release(mine));
    CHECK_OK(cenote_release(parents));
    CHECK_CODE(cenote_release(parents), CENOTE_STALE_HANDLE);
    CHECK(forsaken == 2 && w->closed == closed);
    /* The waiter exists only in the parent. */
    CHECK(count(pool, CENOTE_COUNT_WAITING) == 0);
    CHECK_OK(cenote_destroy(pool, NULL));
    CHECK(w->closed == closed + 1);
    _exit(0);
}

static void never(void* context, cenote_code code, cenote_lease lease, void* resource,
                  const cenote_failure* why) {
    (void)lease, (void)resource, (void)why;
    *(cenote_code*)context = code;
}

int main(void) {
    workshop w = {0};
    cenote_connector c = connector_of(&w);
    c.forsake = forsake;
    cenote_pool pool = pool_of(&c, 2);
    cenote_lease lease = lease_from(pool), idle = lease_from(pool);
    cenote_code waiting = CENOTE_OK;
    cenote_request request;
    CHECK_OK(cenote_acquire_async(pool, NULL, never, &waiting, &request));
    CHECK_OK(cenote_cancel(pool, request));
    CHECK_CODE(waiting, CENOTE_CANCELED);
    CHECK_OK(cenote_release(idle));
    /* A waiter of another pool, which exists only in the parent. */
    workshop v = {0};
    cenote_connector d = connector_of(&v);
    cenote_pool other = pool_of(&d, 1);
    cenote_lease held = lease_from(other);
    CHECK_OK(cenote_acquire_async(other, NULL, never, &waiting, NULL));
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK_OK(cenote_destroy(other, NULL));
        CHECK_CODE(waiting, CENOTE_CANCELED); /* not called */
        child(pool, lease, &w);
    }
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == 0);
    CHECK_OK(cenote_close(other, 0, NULL));
    CHECK_CODE(waiting, CENOTE_CLOSED);
    CHECK_OK(cenote_release(held));
    end(other, &v);
    CHECK_OK(cenote_release(lease));
    end(pool, &w);
    CHECK(forsaken == 0);
    return 0;
}

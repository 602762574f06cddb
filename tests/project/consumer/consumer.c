/* A minimal program in C that uses the installed library. */
#include <cenote/cenote.h>
#include <stdio.h>

static int made = 0;

static int open_number(void* context, void** resource, cenote_failure* why) {
    (void)context;
    (void)why;
    ++made;
    *resource = &made;
    return CENOTE_KEEP;
}

int main(void) {
    cenote_connector connector = {.size = sizeof connector, .open = open_number};
    cenote_pool pool;
    cenote_lease lease;
    void* resource;
    if (cenote_create(&connector, NULL, &pool, NULL) != CENOTE_OK) return 1;
    if (cenote_acquire(pool, CENOTE_DEFAULT_TIMEOUT, &lease, &resource) != CENOTE_OK) return 2;
    printf("%s: resource %d\n", cenote_version(), *(int*)resource);
    if (cenote_release(lease) != CENOTE_OK) return 3;
    return cenote_destroy(pool, NULL) == CENOTE_OK ? 0 : 4;
}

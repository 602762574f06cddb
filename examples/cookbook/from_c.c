/* A pool from C: sessions that a callback opens and closes. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cenote/cenote.h>

struct session {
    int number;
};

static int open_session(void* context, void** resource, cenote_failure* why) {
    atomic_int* opened = context; /* the pool opens on several threads */
    struct session* made = malloc(sizeof *made);
    if (made == NULL) {
        snprintf(why->text, sizeof why->text, "out of memory");
        return CENOTE_DISCARD; /* try again later */
    }
    made->number = 1 + atomic_fetch_add(opened, 1);
    *resource = made;
    return CENOTE_KEEP;
}

static void close_session(void* context, void* resource) {
    (void)context;
    free(resource);
}

static cenote_code use(cenote_pool pool, int* number) {
    cenote_lease lease;
    void* resource;
    cenote_code code = cenote_acquire(pool, CENOTE_DEFAULT_TIMEOUT, &lease, &resource);
    if (code != CENOTE_OK) return code;
    *number = ((struct session*)resource)->number;
    return cenote_release(lease);
}

int main(void) {
    atomic_int opened = 0;
    int number = 0;
    cenote_connector connector = {.size = sizeof connector,
                                  .context = &opened,
                                  .open = open_session,
                                  .close = close_session};
    cenote_options options;
    cenote_options_init(&options, sizeof options);
    options.max = 1;
    cenote_pool pool;
    cenote_failure why = {.size = sizeof why};
    if (cenote_create(&connector, &options, &pool, &why) != CENOTE_OK) {
        puts(why.text);
        return 1;
    }
    for (int i = 0; i < 3; ++i)
        if (use(pool, &number) != CENOTE_OK) return 1;
    cenote_close(pool, 5000000000, NULL); /* wait five seconds for leases */
    cenote_destroy(pool, NULL);
    printf("three uses of session %d\n", number);
    return number == 1 && opened == 1 ? 0 : 1;
}

// What becomes of a place whose generations are used up: its handles do not begin anew.
#include <set>

#include <gmock/gmock.h>

#include "c/handle.hpp"
#include "cenote/cenote.h"

namespace {

int opened = 0;
int closed = 0;

int open(void*, void** resource, cenote_failure*) {
    ++opened;
    *resource = &opened;
    return CENOTE_KEEP;
}

void close(void*, void*) { ++closed; }

cenote_pool make() {
    cenote_connector c{};
    c.size = sizeof c;
    c.open = open;
    c.close = close;
    cenote_options o;
    cenote_options_init(&o, sizeof o);
    o.max = 1;
    cenote_pool pool = 0;
    EXPECT_EQ(cenote_create(&c, &o, &pool, nullptr), CENOTE_OK);
    return pool;
}

TEST(generation, no_lease_has_a_handle_that_was_there_before) {
    cenote_pool pool = make();
    std::set<cenote_lease> seen;
    opened = closed = 0;
    for (int i = 0; i < 1000; ++i) {
        cenote_lease lease = 0;
        ASSERT_EQ(cenote_acquire(pool, CENOTE_FOREVER, &lease, nullptr), CENOTE_OK);
        EXPECT_TRUE(seen.insert(lease).second) << i;
        // Each way out must notice it.
        switch (i % 3) {
            case 0: ASSERT_EQ(cenote_release(lease), CENOTE_OK); break;
            case 1:
                ASSERT_EQ(cenote_mark_dirty(lease), CENOTE_OK);
                ASSERT_EQ(cenote_release_as(lease, CENOTE_KEEP), CENOTE_OK);
                break;
            default: ASSERT_EQ(cenote_release_as(lease, CENOTE_RESET), CENOTE_OK); break;
        }
        EXPECT_NE(cenote_release(lease), CENOTE_OK);
    }
    EXPECT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
    EXPECT_EQ(opened, closed);
}

TEST(generation, a_resource_is_replaced_when_its_place_is_used_up) {
    cenote_pool pool = make();
    opened = 0;
    for (int i = 0; i < 600; ++i) {
        cenote_lease lease = 0;
        ASSERT_EQ(cenote_acquire(pool, CENOTE_FOREVER, &lease, nullptr), CENOTE_OK);
        ASSERT_EQ(cenote_release(lease), CENOTE_OK);
    }
    // Places are used again, so the first one may have been half used.
    EXPECT_GE(opened, 2);
    EXPECT_LE(opened, 4);
    EXPECT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
}

TEST(generation, no_pool_has_a_handle_that_was_there_before) {
    std::set<cenote_pool> seen;
    for (int i = 0; i < 600; ++i) {
        cenote_pool pool = make();
        EXPECT_TRUE(seen.insert(pool).second) << i;
        ASSERT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
        EXPECT_EQ(cenote_pause(pool), CENOTE_STALE_HANDLE);
    }
    for (cenote_pool gone : seen) EXPECT_EQ(cenote_pause(gone), CENOTE_STALE_HANDLE);
}

}  // namespace

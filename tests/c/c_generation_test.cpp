// Handles whose generations are exhausted, and the C API without membarrier(2).
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "c/barrier.hpp"
#include "c/handle.hpp"
#include "cenote/cenote.h"

namespace {

std::atomic<int> opened = 0;
std::atomic<int> closed = 0;

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

TEST(generation, lease_handles_are_never_reused) {
    cenote_pool pool = make();
    std::set<cenote_lease> seen;
    opened = 0;
    closed = 0;
    for (int i = 0; i < 1000; ++i) {
        cenote_lease lease = 0;
        ASSERT_EQ(cenote_acquire(pool, CENOTE_FOREVER, &lease, nullptr), CENOTE_OK);
        EXPECT_TRUE(seen.insert(lease).second) << i;
        // Every way to end a lease must notice the last generation.
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
    EXPECT_EQ(opened.load(), closed.load());
}

TEST(generation, a_resource_is_replaced_when_its_cell_is_exhausted) {
    cenote_pool pool = make();
    opened = 0;
    for (int i = 0; i < 600; ++i) {
        cenote_lease lease = 0;
        ASSERT_EQ(cenote_acquire(pool, CENOTE_FOREVER, &lease, nullptr), CENOTE_OK);
        ASSERT_EQ(cenote_release(lease), CENOTE_OK);
    }
    // Cells are reused, so the first one may have been used before.
    EXPECT_GE(opened.load(), 2);
    EXPECT_LE(opened.load(), 4);
    EXPECT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
}

TEST(generation, pool_handles_are_never_reused) {
    std::set<cenote_pool> seen;
    for (int i = 0; i < 600; ++i) {
        cenote_pool pool = make();
        EXPECT_TRUE(seen.insert(pool).second) << i;
        ASSERT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
        EXPECT_EQ(cenote_pause(pool), CENOTE_STALE_HANDLE);
    }
    for (cenote_pool gone : seen) EXPECT_EQ(cenote_pause(gone), CENOTE_STALE_HANDLE);
}

/// Acquires and releases until another thread has destroyed the pool.
void borrow_until_destroyed(cenote_pool pool) {
    for (;;) {
        cenote_lease lease = 0;
        cenote_code code = cenote_acquire(pool, CENOTE_FOREVER, &lease, nullptr);
        if (code == CENOTE_STALE_HANDLE) return;
        if (code == CENOTE_OK) code = cenote_release(lease);
        ASSERT_TRUE(code == CENOTE_OK || code == CENOTE_CLOSED || code == CENOTE_STALE_HANDLE);
    }
}

TEST(barrier, pools_end_during_calls_with_and_without_membarrier) {
    bool works = cenote::c::has_membarrier;
    for (bool used : {works, false}) {
        cenote::c::has_membarrier = used;
        for (int i = 0; i < 100; ++i) {
            cenote_pool pool = make();
            std::vector<std::thread> callers;
            for (int j = 0; j < 3; ++j) callers.emplace_back(borrow_until_destroyed, pool);
            if (i % 2 == 0) std::this_thread::yield();
            ASSERT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
            for (std::thread& t : callers) t.join();
        }
    }
    cenote::c::has_membarrier = works;
}

}  // namespace

// The C API without memory or threads, and with callbacks that throw.
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <dlfcn.h>
#include <pthread.h>
#include <stdexcept>
#include <utility>

#include <gmock/gmock.h>

#include "cenote/cenote.h"
#include "support/allocations.hpp"

namespace {

using support::allocation_failure;

std::atomic<bool> no_threads = false;

int open(void*, void** into, cenote_failure*) {
    static int it = 0;
    *into = &it;
    return CENOTE_KEEP;
}

std::atomic<int> ended = 0;

cenote_connector plain() {
    cenote_connector c{};
    c.size = sizeof c;
    c.open = open;
    c.end = [](void*) { ++ended; };
    return c;
}

}  // namespace

// Replaces the function for the library as well, like the operator new of allocations.hpp.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* with, void* (*run)(void*),
                              void* argument) {
    if (no_threads) return EAGAIN;
    using type = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto real = reinterpret_cast<type>(dlsym(RTLD_NEXT, "pthread_create"));
    return real(thread, with, run, argument);
}

namespace {

TEST(scarcity, says_that_there_is_no_memory_wherever_it_ends) {
    int refused = 0, survived = 0;  // allocations that are optional do not fail the call
    for (std::uint64_t left = 0;; ++left) {
        cenote_connector c = plain();
        cenote_pool pool = 0;
        cenote_failure why{};
        why.size = sizeof why;
        ended = 0;
        cenote_code code = CENOTE_OK;
        {
            allocation_failure scarce(left);
            code = cenote_create(&c, nullptr, &pool, &why);
            if (code == CENOTE_OK && scarce.happened()) ++survived;
        }
        if (code == CENOTE_OK) {
            EXPECT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
            EXPECT_EQ(ended, 1);
            if (survived > 0 && std::exchange(survived, 0) > 0) continue;
            break;
        }
        ++refused;
        ASSERT_EQ(code, CENOTE_NO_MEMORY) << left << why.text;
        EXPECT_EQ(why.code, CENOTE_NO_MEMORY);
        EXPECT_EQ(pool, 0u);
        EXPECT_EQ(ended, 1) << left;
    }
    EXPECT_GE(refused, 3);
}

TEST(scarcity, requests_without_memory_are_refused_and_not_called_back) {
    cenote_connector c = plain();
    cenote_pool pool = 0;
    ASSERT_EQ(cenote_create(&c, nullptr, &pool, nullptr), CENOTE_OK);
    static int calls;
    calls = 0;
    int refused = 0;
    for (std::uint64_t left = 0;; ++left) {
        cenote_request request = 5;
        auto done = [](void*, cenote_code code, cenote_lease lease, void*, const cenote_failure*) {
            ++calls;
            if (code == CENOTE_OK) cenote_release(lease);
        };
        cenote_lease lease = 0;
        ASSERT_EQ(cenote_acquire(pool, CENOTE_FOREVER, &lease, nullptr), CENOTE_OK);
        ASSERT_EQ(cenote_release(lease), CENOTE_OK);
        cenote_code code = CENOTE_OK;
        {
            allocation_failure scarce(left);
            code = cenote_acquire_async(pool, nullptr, done, nullptr, &request);
        }
        if (code == CENOTE_OK) break;
        ASSERT_EQ(code, CENOTE_NO_MEMORY);
        EXPECT_EQ(request, 0u);
        EXPECT_EQ(calls, 0);
        ++refused;
    }
    EXPECT_GE(refused, 2);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
}

TEST(scarcity, says_that_the_system_has_no_threads) {
    cenote_connector c = plain();
    cenote_options o;
    ASSERT_EQ(cenote_options_init(&o, sizeof o), CENOTE_OK);
    o.warm_up = CENOTE_WARM_UP_NONE;
    cenote_pool pool = 0;
    no_threads = true;
    cenote_code code = cenote_create(&c, &o, &pool, nullptr);
    cenote_lease lease = 0;
    if (code == CENOTE_OK) code = cenote_acquire(pool, CENOTE_FOREVER, &lease, nullptr);
    no_threads = false;
    EXPECT_EQ(code, CENOTE_SYSTEM);
    EXPECT_EQ(lease, 0u);
    if (pool != 0) {
        // The failure is not one of the pool.
        EXPECT_EQ(cenote_acquire(pool, CENOTE_FOREVER, &lease, nullptr), CENOTE_OK);
        EXPECT_EQ(cenote_release(lease), CENOTE_OK);
        EXPECT_EQ(cenote_destroy(pool, nullptr), CENOTE_OK);
    }
}

TEST(scarcity, an_exception_where_none_may_be_is_a_bug_and_does_not_get_through) {
    cenote_connector c = plain();
    c.end = [](void*) { throw std::logic_error("never"); };
    EXPECT_EQ(cenote_create(&c, nullptr, nullptr, nullptr), CENOTE_INTERNAL);
}

}  // namespace

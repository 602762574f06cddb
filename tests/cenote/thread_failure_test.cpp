// Tests a system that cannot start threads: acquire fails with an error, and the pool can end.
#include <atomic>
#include <cerrno>
#include <dlfcn.h>
#include <memory>
#include <pthread.h>
#include <system_error>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using support::connector;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

std::atomic<int> threads_left{1'000'000};

/// During its lifetime only `count` more threads can be started.
struct few_threads {
    explicit few_threads(int count) { threads_left = count; }
    ~few_threads() { threads_left = 1'000'000; }
    few_threads(const few_threads&) = delete;
    few_threads& operator=(const few_threads&) = delete;
};

}  // namespace

// Replaces the function of the C library.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*work)(void*), void* with) {
    using creator = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static const auto real = reinterpret_cast<creator>(dlsym(RTLD_NEXT, "pthread_create"));
    return --threads_left < 0 ? EAGAIN : real(thread, attributes, work, with);
}

TEST(thread_failure, of_the_first_thread_is_thrown_by_acquire) {
    session_pool pool{connector{server::start()}};
    few_threads none(0);
    EXPECT_THROW((void)pool.acquire(), std::system_error);
    std::error_code error;
    EXPECT_FALSE(pool.acquire({}, error));
    EXPECT_EQ(error, std::errc::resource_unavailable_try_again);
}

TEST(thread_failure, of_a_worker_stops_neither_the_clock_nor_the_constructor) {
    few_threads timer_only(1);
    auto make = [] {
        session_pool pool{connector{server::start()},
                          {.min_size = 1, .warm_up = cenote::warm_up::wait, .open_timeout = 20ms}};
    };
    EXPECT_THROW(make(), std::system_error);
}

TEST(thread_failure, of_a_worker_is_over_when_there_are_threads_again) {
    session_pool pool{connector{server::start()}, {.acquire_timeout = support::plenty}};
    {
        few_threads timer_only(1);
        std::error_code error;
        EXPECT_FALSE(pool.acquire({.timeout = 20ms}, error));
        EXPECT_TRUE(error);
    }
    EXPECT_TRUE(pool.acquire());
}

TEST(thread_failure, does_not_block_the_destructor) {
    auto to = server::start();
    {
        session_pool pool{connector{to}, {.close_timeout = cenote::forever}};
        few_threads timer_only(1);
        std::error_code error;
        EXPECT_FALSE(pool.acquire({.timeout = 1ms}, error));
    }
    EXPECT_EQ(to->present, 0);
}

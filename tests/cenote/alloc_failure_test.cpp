// Tests that a failed allocation is an error to one caller and loses nothing, and that leases and
// releases in the steady state allocate nothing.
#include <atomic>
#include <cstdlib>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/detail/mark.hpp"
#include "cenote/pool.hpp"
#include "support/allocations.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"
#include "support/wires.hpp"

using namespace std::chrono_literals;
using support::allocation_failure;
using support::allocations_alive;
using support::allocations_here;
using support::connector;
using support::eventually;
using support::lines_up;
using support::plenty;
using support::rounds;
using support::server;
using support::session;
using session_pool = cenote::pool<session>;

namespace {

constexpr std::uint64_t most = 10'000;

const cenote::options usual{.name = "a name too long to be stored without an allocation",
                            .max = 2,
                            .acquire_timeout = plenty,
                            .probe_timeout = plenty,
                            .reset_timeout = plenty,
                            .close_timeout = plenty,
                            .backoff = {.first = 1ms, .cap_waiting = 1ms, .cap_idle = 1ms}};

/// The pool can lend all its resources, and counts no lease and no waiter afterwards.
void expect_sound(session_pool& pool, server& to) {
    {
        auto one = pool.acquire();
        auto two = pool.acquire();
        EXPECT_EQ(pool.stats().leased, 2U);
    }
    EXPECT_EQ(pool.stats().leased, 0U);
    EXPECT_EQ(pool.stats().waiting, 0U);
    EXPECT_LE(to.peak, 2);
}

/// Runs `once` with the n-th allocation failing, for every n, until none fails.
void for_every_allocation(
    allocation_failure::scope scope,
    const std::function<bool(std::uint64_t, allocation_failure::scope)>& once) {
    std::uint64_t n = 0;
    while (n < most && once(n, scope)) ++n;
    EXPECT_LT(n, most);
}

using scope = allocation_failure::scope;

}  // namespace

TEST(alloc_failure, in_the_constructor_leaves_nothing_behind) {
    auto to = server::start();
    auto settings = usual;
    settings.min_size = 1;
    auto once = [&](std::uint64_t n, scope where) {
        std::optional<allocation_failure> failure(std::in_place, n, where);
        bool made = false;
        try {
            session_pool pool{connector{to}, settings};
            made = true;
            failure.reset();
            expect_sound(pool, *to);
        } catch (const std::bad_alloc&) {
            EXPECT_FALSE(made);
        }
        bool failed = !made;
        failure.reset();
        EXPECT_EQ(to->present, 0);
        return failed;
    };
    // The first pass includes allocations that the process makes only once.
    for_every_allocation(scope::once, once);
    auto before = allocations_alive();
    for_every_allocation(scope::once, once);
    EXPECT_TRUE(eventually([&] { return allocations_alive() == before; }))
        << allocations_alive() - before << " allocations are left";
}

TEST(alloc_failure, in_the_first_acquire_is_an_error_to_the_caller_and_nothing_is_lost) {
    for (scope where : {scope::once, scope::once_on_any_thread}) {
        for_every_allocation(where, [&](std::uint64_t n, scope at) {
            auto to = server::start();
            session_pool pool{connector{to}, usual};
            bool failed = false;
            {
                allocation_failure failure(n, at);
                try {
                    (void)pool.acquire();
                } catch (const std::bad_alloc&) {
                } catch (const cenote::pool_error&) {
                }
                failed = failure.happened();
            }
            expect_sound(pool, *to);
            return failed;
        });
    }
}

TEST(alloc_failure, in_the_no_throw_form_is_not_enough_memory) {
    for_every_allocation(scope::once, [&](std::uint64_t n, scope at) {
        auto to = server::start();
        session_pool pool{connector{to}, usual};
        bool failed = false;
        {
            allocation_failure failure(n, at);
            std::error_code error;
            auto lease = pool.acquire({}, error);
            failed = failure.happened();
            EXPECT_TRUE(lease || error == std::errc::not_enough_memory) << error.message();
            EXPECT_EQ(bool(lease), !error);
        }
        expect_sound(pool, *to);
        return failed;
    });
}

TEST(alloc_failure, in_a_waiting_acquire_costs_that_waiter_only) {
    for_every_allocation(scope::once, [&](std::uint64_t n, scope at) {
        auto to = server::start();
        session_pool pool{connector{to}, usual};
        auto one = pool.acquire();
        auto two = pool.acquire();
        auto other = std::async(std::launch::async, [&] { return bool(pool.acquire()); });
        EXPECT_TRUE(lines_up(pool, 1));
        std::atomic<bool> ended{false};
        std::atomic<bool> failed{false};
        std::jthread waiter([&] {
            allocation_failure failure(n, at);
            std::error_code error;
            auto lease = pool.acquire({}, error);
            failed = failure.happened();
            ended = true;
        });
        EXPECT_TRUE(eventually([&] { return ended || pool.stats().waiting == 2; }));
        one.give_back();
        EXPECT_TRUE(other.get());
        waiter.join();
        two.give_back();
        expect_sound(pool, *to);
        return failed.load();
    });
}

TEST(alloc_failure, in_try_acquire_loses_nothing) {
    for (bool empty : {true, false}) {
        for_every_allocation(scope::once, [&](std::uint64_t n, scope at) {
            auto to = server::start();
            session_pool pool{connector{to}, usual};
            if (!empty) (void)pool.acquire();
            bool failed = false;
            {
                allocation_failure failure(n, at);
                try {
                    (void)pool.try_acquire();
                } catch (const std::bad_alloc&) {
                }
                failed = failure.happened();
            }
            expect_sound(pool, *to);
            return failed;
        });
    }
}

namespace {

/// Functions that read all slots work.
void expect_reads_of_slots_to_work(session_pool& pool, std::size_t leased) {
    EXPECT_EQ(pool.leases().size(), leased);
    EXPECT_THROW((void)pool.acquire_for(0s), cenote::timed_out_error);
    pool.deactivate();
    pool.recover();
    pool.activate();
}

}  // namespace

TEST(alloc_failure, in_a_resize_changes_nothing) {
    for (std::size_t more : {3u, 5u, 100u})
        for_every_allocation(scope::once, [&](std::uint64_t n, scope at) {
            auto to = server::start();
            cenote::options how = usual;
            how.refuse_deadlock = true;
            session_pool pool{connector{to}, how};
            auto one = pool.acquire();
            auto two = pool.acquire();
            bool failed = false;
            {
                allocation_failure failure(n, at);
                bool thrown = false;
                try {
                    pool.resize(more);
                } catch (const std::bad_alloc&) {
                    thrown = true;
                }
                failed = failure.happened();
                EXPECT_EQ(thrown, failed);
            }
            EXPECT_EQ(pool.stats().max, failed ? 2U : more);
            if (!failed) return false;
            expect_reads_of_slots_to_work(pool, 2);
            EXPECT_THROW((void)pool.acquire(), cenote::deadlock_error)
                << "the maximum is still two";
            two.give_back();
            one.give_back();
            expect_sound(pool, *to);
            pool.resize(more);  // without a failure it succeeds
            std::vector<cenote::lease<session>> leases;
            for (std::size_t i = 0; i < more; ++i) leases.push_back(pool.acquire());
            expect_reads_of_slots_to_work(pool, more);
            return true;
        });
}

TEST(alloc_failure, in_a_resize_to_fewer_changes_nothing) {
    for_every_allocation(scope::once, [&](std::uint64_t n, scope at) {
        auto to = server::start();
        session_pool pool{connector{to}, usual};
        auto one = pool.acquire();
        auto two = pool.acquire();
        auto waiter = std::async(std::launch::async, [&] { return pool.acquire_many(2).size(); });
        EXPECT_TRUE(lines_up(pool, 1));
        bool failed = false;
        {
            allocation_failure failure(n, at);
            try {
                pool.resize(1);
            } catch (const std::bad_alloc&) {
                EXPECT_EQ(pool.stats().waiting, 1U);
            }
            failed = failure.happened();
        }
        if (!failed) {
            EXPECT_THROW((void)waiter.get(), cenote::deadlock_error);
            return false;
        }
        one.give_back();
        two.give_back();
        EXPECT_EQ(waiter.get(), 2U);
        EXPECT_EQ(pool.stats().retired(cenote::retire_reason::surplus), 0U);
        expect_sound(pool, *to);
        return true;
    });
}

// A fork after a resize that failed half-way: the child creates its slots again.
TEST(alloc_failure, in_a_resize_allows_a_later_fork) {
    auto settings = usual;
    settings.leak_after = 1ms;
    for (std::uint64_t n = 0; n < 20; ++n) {
        auto to = std::make_shared<support::exchange>();
        cenote::pool<support::wire> pool{support::wire_connector{to}, settings};
        auto lease = pool.acquire();
        {
            allocation_failure failure(n, scope::once);
            try {
                pool.resize(9);
            } catch (const std::bad_alloc&) {
            }
        }
        EXPECT_TRUE(support::in_child([&] {
            auto own = pool.acquire_many(2);
            CHILD_MUST(own[0]->is_ours() && own[1]->is_ours());
            CHILD_MUST(eventually([&] { return pool.stats().leaks == 2; }));
            lease.give_back();
            pool.resize(12);
            auto others = pool.acquire_many(10);
            CHILD_MUST(eventually([&] { return pool.stats().leaks == 12; }));
            return pool.leases().size() == 12;
        })) << n;
    }
}

// The child forsakes its parent's resources when it first uses the pool, even if that use fails.
TEST(alloc_failure, in_the_first_resize_of_a_child_skips_no_forsake) {
    auto to = std::make_shared<support::exchange>();
    support::forsaking_connector forsaking{{to}};
    cenote::pool<support::wire> pool{forsaking, usual};
    (void)pool.acquire_many(2);
    for (std::uint64_t n = 0; n < 40; ++n)
        EXPECT_TRUE(support::in_child([&] {
            {
                allocation_failure failure(n, scope::once);
                try {
                    pool.resize(9);
                } catch (const std::bad_alloc&) {
                }
            }
            CHILD_MUST(pool.acquire()->is_ours());
            CHILD_MUST(*forsaking.forsaken == 2);
            return true;
        })) << n;
}

TEST(alloc_failure, does_not_touch_the_error_of_a_refusal) {
    for_every_allocation(scope::once, [&](std::uint64_t n, scope at) {
        auto to = server::start();
        session_pool pool{connector{to}, usual};
        auto one = pool.acquire();
        auto two = pool.acquire();
        bool failed = false;
        {
            allocation_failure failure(n, at);
            try {
                (void)pool.acquire_for(0ns);
                ADD_FAILURE() << "granted";
            } catch (const std::bad_alloc&) {
            } catch (const cenote::timed_out_error&) {
            }
            failed = failure.happened();
        }
        EXPECT_EQ(pool.stats().waiting, 0U);
        return failed;
    });
}

TEST(alloc_failure, cannot_happen_in_a_release) {
    auto to = server::start();
    auto settings = usual;
    settings.max = 10;
    settings.fairness = cenote::fairness::strict;  // the first release serves the waiter
    session_pool pool{support::hooked_connector{{to}}, settings};
    std::vector<cenote::lease<session>> leases;
    for (int i = 0; i < 10; ++i) leases.push_back(pool.acquire());
    auto waiter = std::async(std::launch::async, [&] { return bool(pool.acquire()); });
    ASSERT_TRUE(lines_up(pool, 1));
    auto before = allocations_here();
    {
        allocation_failure failure(0, scope::from_then_on);
        leases[0].give_back();
        leases[1].give_back();
        leases[2].discard();
        leases[3].mark_dirty();
        leases[3].give_back();
        pool.close();
        leases[4].give_back();
        leases[5].discard();
        leases[6].mark_dirty();
        leases[6].give_back();
    }
    EXPECT_EQ(allocations_here(), before) << "a release never allocates";
    EXPECT_TRUE(waiter.get());
    leases.clear();
    EXPECT_EQ(pool.close(plenty), 0U);
    EXPECT_EQ(to->present, 0);
}

namespace {

/// A lease from the fast lane that will end in the fast lane.
cenote::lease<session> hot_lease(session_pool& pool) {
    for (int i = 0; i < 10; ++i) (void)pool.acquire();
    return pool.acquire();
}

/// Ends a lease on a thread that has never ended one. Returns whether the thread tried to allocate.
bool allocates_at_the_end_of(cenote::lease<session> lease) {
    bool happened = false;
    std::thread([&] {
        allocation_failure failure(0, scope::from_then_on);
        lease.give_back();
        happened = failure.happened();
    }).join();
    return happened;
}

/// Threads that are registered with the fast lane and run until the end of the scope.
class registered_threads {
public:
    explicit registered_threads(int count) : here_(count) {
        for (int i = 0; i < count; ++i)
            threads_.emplace_back([&] {
                cenote::detail::register_this_thread();
                here_.count_down();
                EXPECT_TRUE(stay_.wait());
            });
        here_.wait();
    }
    ~registered_threads() {
        stay_.open();
        for (auto& each : threads_) each.join();
    }
    registered_threads(const registered_threads&) = delete;
    registered_threads& operator=(const registered_threads&) = delete;

private:
    support::latch stay_;
    std::latch here_;
    std::vector<std::thread> threads_;
};

/// Allocates all available memory and never frees it.
void use_up_memory() {
    rlimit none{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &none), 0);
    none.rlim_cur = 0;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    void* volatile taken = nullptr;
    for (std::size_t size = 1 << 20; size >= 8; size /= 2) {
        do {
            taken = std::malloc(size);
        } while (taken != nullptr);
    }
}

/// More threads than there are marks without an allocation (src/shell/mark.cpp).
constexpr int too_many = 300;

}  // namespace

// The first release of a thread used to allocate its mark, where no exception may be thrown.
TEST(alloc_failure, cannot_happen_in_the_first_release_of_a_thread) {
    auto to = server::start();
    session_pool pool{connector{to}, usual};
    EXPECT_FALSE(allocates_at_the_end_of(hot_lease(pool)));
    EXPECT_EQ(pool.stats().leased, 0U);
    EXPECT_EQ(pool.stats().idle, 1U);
    expect_sound(pool, *to);
}

TEST(alloc_failure, cannot_happen_in_the_first_release_of_one_thread_of_many) {
    auto to = server::start();
    session_pool pool{connector{to}, usual};
    registered_threads all(too_many);
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(allocates_at_the_end_of(hot_lease(pool)));
    EXPECT_EQ(pool.stats().leased, 0U);
    expect_sound(pool, *to);
}

TEST(alloc_failure, in_the_first_acquire_of_one_thread_of_many_allows_its_release) {
    auto to = server::start();
    session_pool pool{connector{to}, usual};
    registered_threads all(too_many);
    (void)pool.acquire();
    for_every_allocation(scope::once, [&](std::uint64_t n, scope at) {
        bool failed = false;
        std::thread([&] {
            allocation_failure failure(n, at);
            std::error_code error;
            {
                auto lease = pool.try_acquire();
                auto other = pool.acquire({}, error);
            }
            failed = failure.happened();
        }).join();
        EXPECT_EQ(pool.stats().leased, 0U);
        return failed;
    });
    expect_sound(pool, *to);
}

TEST(allocations, none_stays_behind_after_many_threads) {
    cenote::detail::register_this_thread();
    auto before = allocations_alive();
    {
        registered_threads all(too_many);
    }
    EXPECT_EQ(allocations_alive(), before);
}

// Covers allocations without `new`, too: the C library ended the process if it had no memory to
// register the destructor of a thread-local object.
TEST(alloc_failure, cannot_happen_in_the_first_release_of_a_thread_even_with_no_memory_at_all) {
    if (support::slowly) GTEST_SKIP() << "sanitizers need memory of their own";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto release = [] {
        session_pool pool{connector{server::start()}, usual};
        auto lease = hot_lease(pool);
        std::thread([&] {
            use_up_memory();
            lease.give_back();
            std::_Exit(pool.stats().leased == 0 && pool.stats().idle == 1 ? 0 : 1);
        }).join();
    };
    EXPECT_EXIT(release(), testing::ExitedWithCode(0), "");
}

TEST(alloc_failure, cannot_happen_in_a_release_after_the_pools_end) {
    auto to = server::start();
    std::vector<cenote::lease<session>> leases;
    {
        session_pool pool{connector{to}, usual};
        for (int i = 0; i < 2; ++i) leases.push_back(pool.acquire());
    }
    {
        allocation_failure failure(0, scope::from_then_on);
        leases[0].give_back();
        leases[1].discard();
        EXPECT_FALSE(failure.happened());
    }
    EXPECT_TRUE(eventually([&] { return to->present == 0; }));
}

TEST(alloc_failure, does_not_prevent_close_or_the_end_of_the_pool) {
    auto to = server::start();
    auto pool = std::make_unique<session_pool>(connector{to}, usual);
    expect_sound(*pool, *to);
    {
        allocation_failure failure(0, scope::from_then_on);
        pool->close();
        pool.reset();
    }
    EXPECT_EQ(to->present, 0);
}

TEST(allocations, none_stays_behind_after_the_pool_and_its_last_lease) {
    auto to = server::start();
    auto before = allocations_alive();
    for (int i = 0; i < 5; ++i) {
        cenote::lease<session> lease;
        {
            session_pool pool{connector{to}, usual};
            lease = pool.acquire();
            pool.acquire().discard();
            std::error_code error;
            auto other = pool.acquire();
            (void)pool.acquire({.timeout = 1ms}, error);
        }
    }
    EXPECT_TRUE(eventually([&] { return allocations_alive() == before; }))
        << allocations_alive() - before << " are left";
}

TEST(allocations, there_are_none_per_lease_in_the_steady_state) {
    for (auto order : {cenote::order::lifo, cenote::order::fifo}) {
        auto settings = usual;
        settings.order = order;
        session_pool pool{connector{server::start()}, settings};
        for (int i = 0; i < 100; ++i) (void)pool.acquire();
        auto before = allocations_here();
        for (int i = 0; i < 1000; ++i) {
            (void)pool.acquire();
            (void)pool.try_acquire();
            (void)pool.acquire_for(1s);
        }
        EXPECT_EQ(allocations_here(), before);
    }
}

TEST(allocations, there_are_none_per_wait_and_hand_over_between_two_threads) {
    auto settings = usual;
    settings.max = 1;
    session_pool pool{connector{server::start()}, settings};
    std::latch warm(2);
    std::atomic<std::uint64_t> made{0};
    auto work = [&] {
        auto cycle = [&](int count) {
            for (int i = 0; i < count; ++i) {
                auto lease = pool.acquire();
                std::this_thread::yield();
            }
        };
        cycle(200);
        warm.arrive_and_wait();
        auto before = allocations_here();
        cycle(rounds(5000));
        made += allocations_here() - before;
    };
    {
        std::jthread one(work);
        std::jthread two(work);
    }
    EXPECT_GT(pool.stats().waited, 0U) << "at least one acquire had to wait";
    EXPECT_EQ(made, 0U);
}

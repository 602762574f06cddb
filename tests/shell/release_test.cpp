// Leases that go from one borrower to the next without a full request, where before_acquire looks
// at the resource: if it is unfit, its borrower returns to its place in line.
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/coroutine.hpp"
#include "cenote/pool.hpp"
#include "shell/keeper.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/task.hpp"

using support::eventually;
using support::lines_up;
using support::plenty;
using support::task;

namespace {

/// What the connectors and the borrowers of a test note.
struct notes {
    std::atomic<int> opens{0};
    std::atomic<int> unfit{0};  // the number of the resource that before_acquire refuses
    std::atomic<int> refused{0};
    std::atomic<int> elsewhere{0};  // calls of before_acquire on other threads
    std::thread::id here = std::this_thread::get_id();
    int spoils = 0;  // the borrower whose resource becomes unfit
    std::mutex mutex;
    std::vector<int> served;

    bool accepts(int number) {
        if (std::this_thread::get_id() != here) ++elsewhere;
        if (number != unfit) return true;
        ++refused;
        return false;
    }
    void serve(int who, int number) {
        if (who == spoils) unfit = number;
        std::lock_guard lock(mutex);
        served.push_back(who);
    }
    std::size_t count() {
        std::lock_guard lock(mutex);
        return served.size();
    }
};

/// Its before_acquire may run anywhere.
struct quick_connector {
    std::shared_ptr<notes> to;

    int open() const { return ++to->opens; }
    bool before_acquire(int& number) const noexcept { return to->accepts(number); }
};

/// Its before_acquire may block.
struct slow_connector {
    std::shared_ptr<notes> to;

    int open() const { return ++to->opens; }
    bool before_acquire(int& number) const { return to->accepts(number); }
};

struct posting {
    support::loop* to;

    void operator()(std::coroutine_handle<> ready) const { to->post(ready); }
};

/// No time passes: when a sweep is due, requests take the long way.
template <class Connector>
struct crowd {
    void borrow(int who) {
        auto lease = pool.acquire();
        to->serve(who, *lease);
    }
    /// Goes on in `loop`.
    task await(int who) {
        auto lease = co_await pool.co_acquire().resumed_by(posting{&loop});
        to->serve(who, *lease);
    }
    /// Runs the loop until this many borrowers are served.
    bool run(std::size_t count) {
        return eventually([&] {
            loop.run();
            return to->count() == count;
        });
    }
    cenote::shell::keeper& keeper() {
        return cenote::shell::keeper_of(&cenote::detail::pool_access::of(pool));
    }
    std::uint64_t passed_on() {
        cenote::shell::keeper& k = keeper();
        cenote::shell::pool_guard here(k.lock);
        return k.machine.passed_on();
    }
    std::uint64_t lent_now() {
        cenote::shell::keeper& k = keeper();
        cenote::shell::pool_guard here(k.lock);
        return k.machine.lent_now();
    }

    support::stopped_clock clock;
    std::shared_ptr<notes> to = std::make_shared<notes>();
    support::loop loop;
    cenote::pool<int> pool{Connector{to},
                           {.max = 1,
                            .min_size = 1,
                            .warm_up = cenote::warm_up::wait,
                            .acquire_timeout = plenty,
                            .order = cenote::order::fifo,
                            .fairness = cenote::fairness::strict}};
};

constexpr int crowd_size = 5;
const std::vector<int> in_order{1, 2, 3, 4, 5};

template <class Connector>
void check_threads() {
    crowd<Connector> it;
    it.to->spoils = 2;
    auto lease = it.pool.acquire();
    std::vector<std::jthread> borrowers;
    for (int i = 1; i <= crowd_size; ++i) {
        borrowers.emplace_back([&it, i] { it.borrow(i); });
        ASSERT_TRUE(lines_up(it.pool, static_cast<std::size_t>(i)));
    }
    std::uint64_t before = it.passed_on();
    lease.give_back();
    borrowers.clear();
    EXPECT_GE(it.passed_on() - before, 2u);
    EXPECT_EQ(it.to->refused, 1);
    EXPECT_EQ(it.to->opens, 2);
    EXPECT_EQ(it.to->served, in_order);
}

TEST(release, passes_on_to_a_thread_what_before_acquire_may_refuse) {
    check_threads<quick_connector>();
    check_threads<slow_connector>();
}

/// Coroutines wait, and the lease ends. Returns how many leases were passed on.
template <class Connector>
std::uint64_t serve_coroutines(crowd<Connector>& it) {
    std::vector<task> tasks;
    auto lease = it.pool.acquire();
    for (int i = 1; i <= crowd_size; ++i) {
        tasks.push_back(it.await(i));
        tasks.back().start();
    }
    EXPECT_EQ(it.pool.stats().waiting, std::size_t{crowd_size});
    std::uint64_t before = it.passed_on();
    lease.give_back();
    EXPECT_TRUE(it.run(crowd_size));
    EXPECT_EQ(it.to->served, in_order);
    return it.passed_on() - before;
}

TEST(release, passes_on_to_a_coroutine_what_a_quick_before_acquire_accepts) {
    crowd<quick_connector> it;
    EXPECT_GE(serve_coroutines(it), 3u);
    EXPECT_EQ(it.to->elsewhere, 0);
}

TEST(release, passes_on_to_a_coroutine_what_a_quick_before_acquire_refuses) {
    crowd<quick_connector> it;
    it.to->spoils = 2;
    EXPECT_GE(serve_coroutines(it), 2u);
    EXPECT_EQ(it.to->refused, 1);
    EXPECT_EQ(it.to->opens, 2);
}

TEST(release, leaves_a_slow_before_acquire_of_a_coroutine_to_a_worker) {
    crowd<slow_connector> it;
    it.to->spoils = 2;
    serve_coroutines(it);
    EXPECT_EQ(it.to->refused, 1);
    EXPECT_EQ(it.to->elsewhere, crowd_size + 1);
}

/// Threads only. Each fiftieth check refuses.
struct moody_connector {
    std::shared_ptr<std::atomic<int>> checks = std::make_shared<std::atomic<int>>(0);

    static int open() { return 0; }
    bool before_acquire(int&) const noexcept { return ++*checks % 50 != 0; }
};

TEST(release, serves_all_threads_while_before_acquire_refuses_some) {
    for (auto fairness : {cenote::fairness::strict, cenote::fairness::turns}) {
        constexpr int each = 200;
        cenote::pool<int> pool{moody_connector{},
                               {.max = 2,
                                .acquire_timeout = plenty,
                                .fairness = fairness,
                                .backoff = {.first = std::chrono::milliseconds{1},
                                            .cap_waiting = std::chrono::milliseconds{2}}}};
        std::atomic<int> served = 0;
        std::vector<std::jthread> borrowers;
        for (int i = 0; i < 6; ++i) {
            borrowers.emplace_back([&] {
                for (int n = 0; n < each; ++n) {
                    auto lease = pool.acquire();
                    std::this_thread::yield();
                    ++served;
                }
            });
        }
        borrowers.clear();
        EXPECT_EQ(served, 6 * each);
    }
}

TEST(release, a_pool_may_end_while_before_acquire_refuses_for_a_coroutine) {
    auto it = std::make_unique<crowd<quick_connector>>();
    auto to = it->to;
    std::vector<task> tasks;
    auto lease = it->pool.acquire();
    std::atomic<int> refused = 0;
    auto await = [&](cenote::pool<int>& pool) -> task {
        std::error_code error;
        auto mine = co_await pool.co_acquire({}, error);
        if (error == cenote::errc::closed) ++refused;
    };
    for (int i = 0; i < 3; ++i) {
        tasks.push_back(await(it->pool));
        tasks.back().start();
    }
    it.reset();
    EXPECT_EQ(refused, 3);
    lease.give_back();
}

TEST(acquire, lends_at_once_what_before_acquire_may_refuse) {
    crowd<quick_connector> it;
    (void)it.pool.acquire();
    std::uint64_t before = it.lent_now();
    it.borrow(1);
    task second = it.await(2);
    second.start();
    EXPECT_EQ(it.lent_now() - before, 2u);
    it.to->unfit = 1;
    it.borrow(3);
    EXPECT_EQ(it.lent_now() - before, 3u);
    it.to->unfit = 2;
    task fourth = it.await(4);
    fourth.start();
    EXPECT_TRUE(it.run(4));
    EXPECT_EQ(it.lent_now() - before, 4u);
    EXPECT_EQ(it.to->refused, 2);
    EXPECT_EQ(it.to->served, (std::vector{1, 2, 3, 4}));
}

}  // namespace

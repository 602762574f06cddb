// Credentials that change while a pool or a database works, and wrong ones that are mended. A
// `Case` is as in postgres_credentials_test.cpp.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/credentials.hpp"
#include "cenote/database.hpp"
#include "cenote/error.hpp"
#include "cenote/pool.hpp"
#include "cenote/sqlite.hpp"
#include "connector/awaiting.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/real_server.hpp"

namespace credentials_test {

namespace asio = boost::asio;
using cenote::secret;
using support::canary_password;

/// What the program believes to be the password.
class vault {
public:
    void put(const std::string& password) {
        std::lock_guard lock(mutex_);
        now_ = secret(password);
    }
    cenote::credentials get() const {
        std::lock_guard lock(mutex_);
        ++asked_;  // with the answer: put() comes before both or after both
        return cenote::credentials(now_);
    }
    int asked() const { return asked_; }

private:
    mutable std::mutex mutex_;
    mutable std::atomic<int> asked_{0};
    secret now_{canary_password};
};

template <class Case>
typename Case::options with(const std::shared_ptr<vault>& from) {
    typename Case::options o = Case::without_password();
    o.credentials = [from] { return from->get(); };
    return o;
}

/// Each connection serves few leases, so that new ones log in all the time.
inline cenote::options restless() {
    cenote::options o = support::patient(3);
    o.max_uses = 3;
    return o;
}

/// CENOTE_ROTATION_SECONDS in the environment: how long to rotate, once in each second.
inline int rotation_seconds() {
    const char* seconds = std::getenv("CENOTE_ROTATION_SECONDS");
    return seconds == nullptr ? 0 : std::atoi(seconds);
}

inline int rotations() { return rotation_seconds() > 0 ? rotation_seconds() : 25; }

/// Changes the password at the server and then in the vault, again and again while `done` counts
/// on: between the two every login fails. Each change runs a program, which takes about 50 ms.
template <class Case>
void rotate(vault& in, const std::atomic<int>& done) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < rotations(); ++i) {
        if (rotation_seconds() > 0) std::this_thread::sleep_until(begin + std::chrono::seconds(i));
        std::string next = canary_password + std::to_string(i);
        Case::change_password(next);
        int asked = in.asked();
        EXPECT_TRUE(support::eventually([&] { return in.asked() > asked; }));  // a login fails
        in.put(next);
        int before = done;
        EXPECT_TRUE(support::eventually([&] { return done >= before + 5; }));
    }
    Case::change_password(canary_password);
    in.put(canary_password);
    if (rotation_seconds() > 0)
        std::cout << rotations() << " rotations, " << done << " operations, " << in.asked()
                  << " logins\n";
}

/// Threads call `work` until the rotation is over. No call may throw.
template <class Case, class Work>
void rotate_under_load(vault& in, Work work) {
    std::atomic<int> done{0};
    std::atomic<int> failed{0};
    std::atomic<bool> over{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&] {
            while (!over) {
                try {
                    work();
                } catch (const std::exception& e) {
                    ++failed;
                    ADD_FAILURE() << e.what();
                }
                ++done;
            }
        });
    rotate<Case>(in, done);
    over = true;
    for (std::thread& each : threads) each.join();
    EXPECT_EQ(failed, 0);
    EXPECT_GT(in.asked(), rotations());
}

template <class Case>
void a_pool_outlives_rotations() {
    auto in = std::make_shared<vault>();
    cenote::pool<typename Case::connection> pool{typename Case::connector{with<Case>(in)},
                                                 restless()};
    rotate_under_load<Case>(*in, [&] { pool.acquire()->execute("SELECT 1"); });
    EXPECT_EQ(pool.stats().refused_after_wait, 0u);
}

template <class Case>
void a_database_outlives_rotations() {
    auto in = std::make_shared<vault>();
    cenote::database db(with<Case>(in), {.pool = restless()});
    rotate_under_load<Case>(*in, [&] { db.execute("SELECT 1"); });
}

template <class Case>
asio::awaitable<void> work_until(cenote::pool<typename Case::connection>& pool,
                                 const std::atomic<bool>& over, std::atomic<int>& done) {
    while (!over) {
        auto lease = co_await pool.async_acquire(asio::use_awaitable);
        co_await lease->async_execute("SELECT 1");
        ++done;
    }
}

/// `o`: with a function that may block, or with one that is awaited.
template <class Case>
void an_awaited_pool_outlives_rotations(const typename Case::options& o, vault& in) {
    asio::io_context io;
    cenote::pool<typename Case::connection> pool{io, typename Case::async_connector{o}, restless()};
    std::atomic<bool> over{false};
    std::atomic<int> done{0};
    std::atomic<int> left{4};
    auto close = [&]() -> asio::awaitable<void> {
        co_await pool.async_close(support::plenty, asio::use_awaitable);
        io.stop();
    };
    for (int i = 0; i < 4; ++i)
        asio::co_spawn(io, work_until<Case>(pool, over, done), [&](const std::exception_ptr& e) {
            EXPECT_EQ(e, nullptr);
            if (--left == 0) asio::co_spawn(io, close(), asio::detached);
        });
    std::thread loop([&] { io.run(); });
    rotate<Case>(in, done);
    over = true;
    loop.join();
    EXPECT_GT(in.asked(), rotations());
}

/// Neither final nor in any text.
template <class Case>
void a_wrong_password_is_mended() {
    auto in = std::make_shared<vault>();
    const std::string wrong = std::string(canary_password) + "-wrong";
    in->put(wrong);
    typename Case::connector to{with<Case>(in)};
    try {
        to.open();
        ADD_FAILURE() << "the server accepts a wrong password";
    } catch (const cenote::connection_error& e) {
        EXPECT_EQ(e.kind(), cenote::error_kind::transient) << e.what();
        EXPECT_THAT(e.what(), testing::Not(testing::HasSubstr(canary_password)));
    }
    cenote::pool<typename Case::connection> pool{to, support::patient(2)};
    std::vector<std::thread> waiters;
    for (int i = 0; i < 3; ++i)
        waiters.emplace_back([&] { EXPECT_NO_THROW(pool.acquire()->execute("SELECT 1")); });
    EXPECT_TRUE(support::eventually([&] { return pool.stats().open_failed >= 2; }));
    in->put(canary_password);
    for (std::thread& each : waiters) each.join();
    EXPECT_EQ(pool.stats().refused_after_wait, 0u);
}

struct no_vault : std::runtime_error {
    using runtime_error::runtime_error;
};

/// With a final error the waiters fail at once; the pool tries again later.
template <class Case>
void a_function_decides_what_its_failure_means() {
    auto calls = std::make_shared<std::atomic<int>>(0);
    typename Case::options o = Case::without_password();
    o.credentials = [calls]() -> cenote::credentials {
        if (++*calls == 1)
            throw cenote::connection_error(cenote::error_kind::final, "no such secret");
        return cenote::credentials(secret(canary_password));
    };
    cenote::pool<typename Case::connection> pool{typename Case::connector{o}, support::patient(1)};
    try {
        auto lease = pool.acquire();
        ADD_FAILURE() << "opened";
    } catch (const cenote::open_failed_error& e) {
        EXPECT_THAT(e.what(), testing::HasSubstr("no such secret"));
    }
    EXPECT_NO_THROW(pool.acquire()->execute("SELECT 1"));
}

template <class Case>
void a_function_may_throw_anything() {
    auto calls = std::make_shared<std::atomic<int>>(0);
    typename Case::options o = Case::without_password();
    o.credentials = [calls]() -> cenote::credentials {
        if (++*calls < 4) throw 42;
        return cenote::credentials(secret(canary_password));
    };
    EXPECT_THROW(typename Case::connector{o}.open(), int);
    typename Case::async_connector awaited{o};
    EXPECT_THROW(support::await(awaited.open()), int);
    cenote::pool<typename Case::connection> pool{typename Case::connector{o}, support::patient(1)};
    EXPECT_NO_THROW(pool.acquire()->execute("SELECT 1"));
    EXPECT_EQ(*calls, 4);
}

template <class Case>
void a_function_that_throws_fails_the_open() {
    auto calls = std::make_shared<std::atomic<int>>(0);
    typename Case::options o = Case::without_password();
    o.credentials = [calls]() -> cenote::credentials {
        if (++*calls < 4) throw no_vault("sealed");
        return cenote::credentials(secret(canary_password));
    };
    EXPECT_THROW(typename Case::connector{o}.open(), no_vault);
    typename Case::async_connector awaited{o};
    EXPECT_THROW(support::await(awaited.open()), no_vault);
    cenote::pool<typename Case::connection> pool{typename Case::connector{o}, support::patient(1)};
    EXPECT_NO_THROW(pool.acquire()->execute("SELECT 1"));
    EXPECT_GE(*calls, 4);
}

/// With a temporary in a co_return that has a co_await in it: g++ 12 destroys such an aggregate
/// twice.
template <class Case>
typename Case::options with_awaited_function(const std::shared_ptr<vault>& from) {
    typename Case::options o = Case::without_password();
    o.async_credentials = [user = o.user, from]() -> asio::awaitable<cenote::credentials> {
        auto fetch = [&]() -> asio::awaitable<std::string> {
            co_await asio::post(asio::use_awaitable);
            co_return std::string(from->get().password.reveal());
        };
        co_return cenote::credentials(user, secret(co_await fetch()));
    };
    return o;
}

/// Both kinds of connectors.
template <class Case>
void an_awaited_function_is_enough(typename Case::options o) {
    auto in = std::make_shared<vault>();
    o.async_credentials = with_awaited_function<Case>(in).async_credentials;
    EXPECT_TRUE(typename Case::connector{o}.open().execute("SELECT 1").size() == 1);
    typename Case::async_connector to{o};
    EXPECT_NO_THROW(support::await(to.open()));
    EXPECT_EQ(in->asked(), 2);
}

template <class Case>
void a_database_outlives_rotations_of_an_awaited_function() {
    auto in = std::make_shared<vault>();
    cenote::database db(with_awaited_function<Case>(in), {.pool = restless()});
    rotate_under_load<Case>(*in, [&] { db.execute("SELECT 1"); });
}

/// A blocking call cannot be canceled, so the connector limits the time. It passes in the function,
/// which otherwise might not begin in time.
template <class Case>
void an_awaited_function_that_hangs_times_out() {
    support::stopped_clock clock;
    typename Case::options o = Case::without_password();
    o.connect_timeout = std::chrono::milliseconds(30);
    auto ended = std::make_shared<std::atomic<int>>(0);
    o.async_credentials = [ended, &clock]() -> asio::awaitable<cenote::credentials> {
        std::shared_ptr<void> end(nullptr, [ended](void*) { ++*ended; });
        clock.advance(std::chrono::milliseconds(30));
        asio::steady_timer never(co_await asio::this_coro::executor, support::plenty);
        co_await never.async_wait(asio::use_awaitable);
        co_return cenote::credentials();
    };
    EXPECT_THROW(typename Case::connector{o}.open(), cenote::exchange_timeout);
    EXPECT_EQ(*ended, 1);
}

// Functions that hang.

/// `token`: kept by the options, which outlive the last call.
template <class Case>
typename Case::options with_hanging_function(const support::latch& until,
                                             const std::shared_ptr<int>& token) {
    typename Case::options o = Case::without_password();
    o.credentials = [until, token] {
        until.wait();
        return cenote::credentials(secret(canary_password));
    };
    return o;
}

template <class Case>
asio::awaitable<void> fail_to_acquire(cenote::pool<typename Case::connection>* pool) {
    boost::system::error_code refused;
    auto none = co_await pool->async_acquire(asio::redirect_error(asio::use_awaitable, refused));
    EXPECT_TRUE(refused);
}

inline asio::awaitable<void> wait_until(std::function<bool()> holds) {
    asio::steady_timer pause(co_await asio::this_coro::executor);
    while (!holds()) {
        pause.expires_after(std::chrono::milliseconds(1));
        co_await pause.async_wait(asio::use_awaitable);
    }
}

/// Another pool opens, also with a function of its own, and awaited calls to SQLite work.
template <class Case>
asio::awaitable<void> work_beside_functions_that_hang(asio::io_context* io,
                                                      typename Case::options hanging,
                                                      typename Case::options fine,
                                                      support::latch hang) {
    using pool = cenote::pool<typename Case::connection>;
    using connector = typename Case::async_connector;
    auto stuck = std::make_unique<pool>(*io, connector{hanging}, support::patient(8));
    auto finished = std::make_shared<int>(0);
    for (int i = 0; i < 4; ++i)
        asio::co_spawn(*io, fail_to_acquire<Case>(stuck.get()), [=](const std::exception_ptr& e) {
            EXPECT_EQ(e, nullptr);
            ++*finished;
        });
    co_await wait_until([&] { return hang.waiting() == 4; });
    {
        pool other(*io, connector{fine}, support::patient(1));
        auto lease = co_await other.async_acquire(asio::use_awaitable);
        co_await lease->async_execute("SELECT 1");
        cenote::sqlite::async_connector local("sqlite:beside?mode=memory");
        cenote::sqlite::connection c = co_await local.open();
        co_await c.async_execute("SELECT 1");
    }
    stuck.reset();
    co_await wait_until([&] { return *finished == 4; });
    EXPECT_EQ(hang.waiting(), 4);  // the pool has waited for none of them
}

template <class Case>
void functions_that_hang_stop_nothing_else(const typename Case::options& place) {
    support::latch hang;
    auto token = std::make_shared<int>();
    auto in = std::make_shared<vault>();
    typename Case::options hanging = place;
    hanging.credentials = with_hanging_function<Case>(hang, token).credentials;
    typename Case::options fine = place;
    fine.credentials = with<Case>(in).credentials;
    asio::io_context io;
    asio::co_spawn(io, work_beside_functions_that_hang<Case>(&io, hanging, fine, hang),
                   [](const std::exception_ptr& e) {
                       if (e != nullptr) std::rethrow_exception(e);
                   });
    EXPECT_NO_THROW(io.run());
    hang.open();
    hanging.credentials = nullptr;
    EXPECT_TRUE(support::eventually([&] { return token.use_count() == 1; }));
}

/// The pool abandons the opens, and ends before the functions do.
template <class Case>
void a_blocking_pool_abandons_functions_that_hang() {
    support::latch hang;
    auto token = std::make_shared<int>();
    {
        cenote::options how = support::patient(2);
        how.open_timeout = how.acquire_timeout = how.close_timeout = std::chrono::milliseconds(30);
        cenote::pool<typename Case::connection> pool{
            typename Case::connector{with_hanging_function<Case>(hang, token)}, how};
        // On a busy machine an acquire may end before its open has begun.
        EXPECT_TRUE(support::eventually([&] {
            EXPECT_THROW(pool.acquire()->execute("SELECT 1"), cenote::pool_error);
            return hang.waiting() > 0;
        }));
    }
    hang.open();
    EXPECT_TRUE(support::eventually([&] { return token.use_count() == 1; }));
}

// Refused logins.

/// Two addresses, one refusal: the password is wrong everywhere. `refusals`: as the server counts
/// them.
template <class Case>
void refused_credentials_are_sent_once(const std::function<int()>& refusals) {
    auto in = std::make_shared<vault>();
    in->put("wrong");
    typename Case::connector to{Case::with_two_addresses(with<Case>(in))};
    const int before = refusals();
    support::stopped_clock clock;
    for (int i = 1; i <= 3; ++i) {
        EXPECT_THROW(to.open(), cenote::connection_error);
        EXPECT_EQ(in->asked(), i + 1);
    }
    EXPECT_TRUE(support::eventually([&] { return refusals() == before + 1; }));
    clock.advance(std::chrono::seconds(1));
    EXPECT_THROW(to.open(), cenote::connection_error);
    EXPECT_TRUE(support::eventually([&] { return refusals() == before + 2; }));
    in->put(canary_password);  // others are sent at once
    EXPECT_NO_THROW(to.open());
    EXPECT_EQ(refusals(), before + 2);
}

/// The password has changed between the question and the login.
template <class Case>
void the_source_is_asked_again_after_a_refusal() {
    auto calls = std::make_shared<std::atomic<int>>(0);
    typename Case::options o = Case::without_password();
    o.credentials = [calls] {
        return cenote::credentials(secret(++*calls % 2 == 1 ? "wrong" : canary_password));
    };
    EXPECT_NO_THROW(typename Case::connector{o}.open());
    typename Case::async_connector awaited{o};
    EXPECT_NO_THROW(support::await(awaited.open()));
    EXPECT_EQ(*calls, 4);
}

/// The user of the function replaces that of the options.
template <class Case>
void a_function_may_choose_the_user(const std::string& user, const std::string& look) {
    typename Case::options o = Case::without_password();
    o.credentials = [user] { return cenote::credentials(user, secret(canary_password)); };
    EXPECT_THAT(typename Case::connector{o}.open().execute(look).template scalar<std::string>(),
                testing::StartsWith(user));
}

template <class Case>
void a_second_source_is_refused() {
    typename Case::options o = with<Case>(std::make_shared<vault>());
    o.password = secret("x");
    EXPECT_THROW(typename Case::connector{o}, std::invalid_argument);
}

}  // namespace credentials_test

// Functions of the user that set up each new session: what they have set is found by every lease,
// and what becomes of functions that fail, hang or are canceled. A `Case` is as in
// postgres_on_open_test.cpp.
#pragma once

#include <algorithm>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/database.hpp"
#include "cenote/error.hpp"
#include "cenote/pool.hpp"
#include "connector/awaiting.hpp"
#include "connector/sql_settings.hpp"
#include "database/canceling.hpp"
#include "support/clock.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace on_open_test {

namespace asio = boost::asio;
using cenote::conformance::canceled_after;
using testing::HasSubstr;

/// What a function runs: a text and at most one value.
struct step {
    std::string text;
    std::optional<cenote::sql::parameter> value = std::nullopt;
};

/// Copies of the values' texts are the caller's.
using steps = std::vector<step>;

inline std::size_t count_of(const step& s) { return s.value ? 1 : 0; }

template <class Connection>
void run(Connection& on, const steps& all) {
    for (const step& each : all)
        on.execute_bound(each.text, {each.value ? &*each.value : nullptr, count_of(each)});
}

template <class Connection>
asio::awaitable<void> async_run(Connection* on, const steps* all) {
    for (const step& each : *all) {
        cenote::sql::bound_statement one(each.text,
                                         {each.value ? &*each.value : nullptr, count_of(each)});
        co_await on->async_execute_bound(std::move(one));
    }
}

/// Options with a function that runs these steps and counts its calls.
template <class Case>
typename Case::options blocking_with(typename Case::options o, const steps& all,
                                     std::shared_ptr<std::atomic<int>> calls = nullptr) {
    o.on_open = [all, calls](typename Case::connection& c) {
        if (calls != nullptr) ++*calls;
        run(c, all);
    };
    return o;
}

template <class Case>
typename Case::options awaited_with(typename Case::options o, const steps& all) {
    o.async_on_open = [all](typename Case::connection& c) -> asio::awaitable<void> {
        co_await asio::post(asio::use_awaitable);
        co_await async_run(&c, &all);
    };
    return o;
}

// What it sets.

/// In the words of sql_settings.hpp: blocking and awaited functions for both kinds of pools.
template <class Case>
void every_lease_finds_what_it_sets(const typename Case::options& o) {
    for (const auto& with :
         {blocking_with<Case>(o, Case::set_up()), awaited_with<Case>(o, Case::set_up())}) {
        settings::every_lease_finds_them<Case>(with);
        settings::every_awaited_lease_finds_them<Case>(with);
    }
}

template <class Case>
void statements_of_a_database_find_what_it_sets(const typename Case::options& o) {
    const auto with = blocking_with<Case>(o, Case::set_up());
    settings::statements_of_a_database_find_them<Case>(with);
    settings::statements_of_a_database_find_them<Case>(with, true);
    settings::scopes_and_transactions_of_a_database_find_them<Case>(
        awaited_with<Case>(o, Case::set_up()));
    settings::leases_after_errors_find_them<Case>(with);
}

template <class Case>
void it_is_called_once_for_each_connection(const typename Case::options& o) {
    auto calls = std::make_shared<std::atomic<int>>(0);
    cenote::pool<typename Case::connection> two{
        typename Case::connector{blocking_with<Case>(o, Case::set_up(), calls)},
        support::patient(2)};
    auto first = two.acquire();
    auto second = two.acquire();
    EXPECT_EQ(first->execute(Case::look).template scalar<std::string>(), Case::seen);
    EXPECT_EQ(second->execute(Case::look).template scalar<std::string>(), Case::seen);
    EXPECT_EQ(*calls, 2);
}

/// Each lease has one statement; `o`: through the gate.
template <class Case>
void its_repetition_costs_no_round_trip(const typename Case::options& o, support::gate& gate) {
    cenote::options how = support::patient(1);
    how.reset_after = support::plenty;
    auto turns = [&](const typename Case::options& with) {
        cenote::pool<typename Case::connection> one{typename Case::connector{with}, how};
        for (int i = 0; i < 4; ++i) one.acquire()->execute("SELECT 1");
        // On a busy machine the gate counts a turn more now and then: the fewest of several leases.
        std::size_t fewest = 1000;
        for (int i = 0; i < 20; ++i) {
            const std::size_t before = gate.turns();
            one.acquire()->execute("SELECT 1");
            fewest = std::min(fewest, gate.turns() - before);
        }
        EXPECT_EQ(one.stats().opened, 1u);
        return fewest;
    };
    EXPECT_EQ(turns(blocking_with<Case>(o, Case::set_up())), turns(o));
}

// What it must not do.

template <class Case>
using attempt = std::pair<const char*, std::function<void(typename Case::connection&)>>;

/// `all`: each throws a std::logic_error, which fails the open, blocking and awaited.
template <class Case>
void it_is_refused(const typename Case::options& place, const std::vector<attempt<Case>>& all) {
    for (const auto& [name, what] : all) {
        SCOPED_TRACE(name);
        typename Case::options o = place;
        o.on_open = what;
        EXPECT_THROW(typename Case::connector{o}.open(), std::logic_error);
        typename Case::async_connector awaited{o};
        EXPECT_THROW(support::await(awaited.open()), std::logic_error);
        // A function that swallows the error leaves nothing behind.
        o.on_open = [&refused = what](typename Case::connection& c) {
            EXPECT_THROW(refused(c), std::logic_error);
        };
        cenote::pool<typename Case::connection> one{typename Case::connector{o},
                                                    support::patient(1)};
        for (int i = 0; i < 3; ++i)
            EXPECT_EQ(one.acquire()->execute("SELECT 7").template scalar<int>(), 7);
        EXPECT_EQ(one.stats().opened, 1u);
    }
}

/// `o`: its function runs what the server executes only once.
template <class Case>
void it_fails_the_open_if_it_cannot_be_repeated(const typename Case::options& o) {
    try {
        typename Case::connector{o}.open();
        ADD_FAILURE() << "opened";
    } catch (const cenote::server_error& e) {
        EXPECT_THAT(e.what(), HasSubstr("what on_open has run could not be repeated"));
    }
}

// Failures.

struct no_set_up : std::runtime_error {
    using runtime_error::runtime_error;
};

/// `Throw`: throws the exception of a number.
template <class Case>
void its_exception_fails_the_open(const typename Case::options& place) {
    auto calls = std::make_shared<std::atomic<int>>(0);
    typename Case::options o = place;
    o.on_open = [calls](typename Case::connection& c) {
        switch (++*calls) {
            case 1:
            case 2: throw no_set_up("the moon is wrong");
            case 3: throw 42;
            case 4: c.execute("SELEKT"); break;
            default: break;
        }
    };
    typename Case::connector to{o};
    EXPECT_THROW(to.open(), no_set_up);
    typename Case::async_connector awaited{o};
    EXPECT_THROW(support::await(awaited.open()), no_set_up);
    EXPECT_THROW(to.open(), int);
    EXPECT_THROW(to.open(), cenote::statement_error);
    EXPECT_NO_THROW(to.open());
}

template <class Case>
void a_pool_tells_its_exception() {
    auto calls = std::make_shared<std::atomic<int>>(0);
    typename Case::options o = Case::plain();
    o.on_open = [calls](typename Case::connection&) {
        if (++*calls == 1) throw no_set_up("the moon is wrong");
    };
    cenote::options how = support::patient(1);
    how.open_errors = cenote::open_errors::fail_fast;
    cenote::pool<typename Case::connection> pool{typename Case::connector{o}, how};
    try {
        auto lease = pool.acquire();
        ADD_FAILURE() << "opened";
    } catch (const cenote::open_failed_error& e) {
        EXPECT_THAT(e.what(), HasSubstr("the moon is wrong"));
    }
    cenote::database db(o, {.pool = support::patient(1)});
    *calls = 0;
    EXPECT_EQ(db.execute("SELECT 7").template scalar<int>(), 7);
    EXPECT_EQ(*calls, 2);
}

/// The connection is killed by another one while the function runs.
template <class Case>
void a_killed_connection_fails_the_open() {
    auto calls = std::make_shared<std::atomic<int>>(0);
    typename Case::options o = Case::plain();
    o.on_open = [calls](typename Case::connection& c) {
        run(c, Case::set_up());
        if (++*calls <= 2) Case::server().kill_backends();
        run(c, Case::set_up_again());
    };
    EXPECT_THROW(typename Case::connector{o}.open(), cenote::connection_error);
    typename Case::async_connector awaited{o};
    EXPECT_THROW(support::await(awaited.open()), cenote::connection_error);
    *calls = 0;
    cenote::pool<typename Case::connection> pool{typename Case::connector{o}, support::patient(1)};
    EXPECT_EQ(pool.acquire()->execute(Case::look).template scalar<std::string>(), Case::seen);
    EXPECT_EQ(*calls, 3);
}

/// The replies end after each number of bytes. `through`: options for the gate.
template <class Case>
void it_fails_wherever_it_is_cut_off(const typename Case::options& through, support::gate& gate) {
    typename Case::connector to{blocking_with<Case>(through, Case::set_up())};
    to.open();  // what a connector learns from its first connection
    bool whole = false;
    for (std::size_t bytes = 1; !whole && bytes < 20'000; bytes += support::slowly ? 97 : 31) {
        SCOPED_TRACE(bytes);
        gate.cut_after(bytes);
        try {
            typename Case::connection c = to.open();
            whole = true;
            gate.pass();
        } catch (const cenote::connection_error&) {
            gate.pass();
        }
    }
    EXPECT_TRUE(whole);
    typename Case::connection c = to.open();
    EXPECT_EQ(c.execute(Case::look).template scalar<std::string>(), Case::seen);
}

template <class Case>
asio::awaitable<void> open_once(typename Case::async_connector* by) {
    typename Case::connection c = co_await by->open();
    auto seen = co_await c.async_execute(Case::look);
    EXPECT_EQ(seen.template scalar<std::string>(), Case::seen);
}

/// Canceled after each step of the event loop, an open leaves no connection behind.
template <class Case>
void it_can_be_canceled_at_every_step(const typename Case::options& through, support::gate& gate) {
    gate.delay(std::chrono::milliseconds(1));
    typename Case::async_connector to{awaited_with<Case>(through, Case::set_up())};
    support::await(open_once<Case>(&to));
    bool went_on = true;
    for (int after = 1; went_on && after < 1000; ++after) {
        SCOPED_TRACE(after);
        went_on = canceled_after(after, open_once<Case>(&to)).has_value();
    }
    EXPECT_FALSE(went_on);
    EXPECT_TRUE(support::eventually([&] { return gate.connections() == 0; }));
}

// Functions that hang.

/// Advances the stopped clock until the open has ended.
class passing_time {
public:
    explicit passing_time(std::function<bool()> begun)
        : thread_([this, begun = std::move(begun)] {
              support::eventually(begun);
              while (!over_) {
                  clock_.advance(std::chrono::minutes(1));
                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
              }
          }) {}
    ~passing_time() {
        over_ = true;
        thread_.join();
    }
    passing_time(const passing_time&) = delete;
    passing_time& operator=(const passing_time&) = delete;

private:
    support::stopped_clock clock_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

/// The connector limits the time, since a blocking call cannot be canceled.
template <class Case>
void an_awaited_function_that_hangs_times_out() {
    auto begun = std::make_shared<std::atomic<int>>(0);
    auto ended = std::make_shared<std::atomic<int>>(0);
    typename Case::options o = Case::plain();
    o.async_on_open = [begun, ended](typename Case::connection&) -> asio::awaitable<void> {
        std::shared_ptr<void> end(nullptr, [ended](void*) { ++*ended; });
        asio::steady_timer never(co_await asio::this_coro::executor, std::chrono::hours(10'000));
        ++*begun;
        co_await never.async_wait(asio::use_awaitable);
    };
    passing_time time([begun] { return *begun == 1; });
    EXPECT_THROW(typename Case::connector{o}.open(), cenote::exchange_timeout);
    EXPECT_EQ(*ended, 1);
}

/// Statements of the function count towards connect_timeout. `sleep`: one that takes long.
template <class Case>
void a_statement_that_hangs_times_out(const std::string& sleep) {
    auto begun = std::make_shared<std::atomic<int>>(0);
    typename Case::options o = Case::plain();
    o.operation_timeout = std::chrono::hours(10'000);
    o.on_open = [begun, sleep](typename Case::connection& c) {
        ++*begun;
        c.execute(sleep);
    };
    {
        passing_time time([begun] { return *begun == 1; });
        EXPECT_THROW(typename Case::connector{o}.open(), cenote::exchange_timeout);
    }
    passing_time time([begun] { return *begun == 2; });
    typename Case::async_connector awaited{o};
    EXPECT_THROW(support::await(awaited.open()), cenote::exchange_timeout);
}

/// The pool abandons the opens and ends before the functions do, which keep their connections.
template <class Case>
void a_pool_abandons_functions_that_hang() {
    support::latch hang;
    auto token = std::make_shared<int>();
    auto ran = std::make_shared<std::atomic<int>>(0);
    {
        typename Case::options o = Case::plain();
        o.on_open = [hang, token, ran](typename Case::connection& c) {
            hang.wait();
            c.execute("SELECT 1");
            ++*ran;
        };
        cenote::options how = support::patient(2);
        how.open_timeout = how.acquire_timeout = how.close_timeout = std::chrono::milliseconds(30);
        cenote::pool<typename Case::connection> pool{typename Case::connector{o}, how};
        // On a busy machine an acquire may end before its open has begun.
        EXPECT_TRUE(support::eventually([&] {
            EXPECT_THROW(pool.acquire()->execute("SELECT 1"), cenote::pool_error);
            return hang.waiting() > 0;
        }));
    }
    hang.open();
    EXPECT_TRUE(support::eventually([&] { return token.use_count() == 1; }));
    EXPECT_GE(*ran, 1);
}

/// The coroutine resumes at once; the function ends later, with its connection.
template <class Case>
void a_canceled_open_leaves_its_function_behind() {
    support::latch hang;
    auto token = std::make_shared<int>();
    typename Case::options o = Case::plain();
    o.on_open = [hang, token](typename Case::connection& c) {
        hang.wait();
        run(c, Case::set_up());
    };
    auto to = std::make_unique<typename Case::async_connector>(o);
    o.on_open = nullptr;
    auto open = [&]() -> asio::awaitable<void> {
        typename Case::connection c = co_await to->open();
        ADD_FAILURE() << "opened";
    };
    cenote::conformance::own_thread loop;
    cenote::conformance::pending one(open());
    EXPECT_TRUE(support::eventually([&] { return hang.waiting() == 1; }));
    EXPECT_TRUE(cenote::conformance::is_cancellation(one.cancel()));
    to.reset();
    EXPECT_EQ(hang.waiting(), 1);
    hang.open();
    EXPECT_TRUE(support::eventually([&] { return token.use_count() == 1; }));
}

// Repetitions that fail later.

/// `o`: its function uses the table `source`, which is missing for a while. No statement runs in a
/// session that is not set up. `change`: makes the mode of reset reset the session.
template <class Case>
void no_lease_runs_without_it(const typename Case::options& o, const char* change,
                              const std::function<void(bool)>& have_source) {
    have_source(true);
    cenote::pool<typename Case::connection> pool{typename Case::connector{o}, support::patient(1)};
    {
        auto lease = pool.acquire();
        lease->execute(change);
        have_source(false);
    }
    cenote::database db(o, {.pool = {.max = 1, .acquire_timeout = std::chrono::milliseconds(100)}});
    EXPECT_THROW(db.execute(Case::look), cenote::pool_error);
    std::thread later([&] {
        support::eventually([&] { return pool.stats().open_failed >= 1; });
        have_source(true);
    });
    for (bool seen = false; !seen;) {
        try {
            auto lease = pool.acquire();
            EXPECT_EQ(lease->execute(Case::look).template scalar<std::string>(), Case::seen);
            seen = true;
        } catch (const cenote::statement_not_run&) {
        }
    }
    later.join();
    EXPECT_EQ(pool.stats().opened, 2u);
}

}  // namespace on_open_test

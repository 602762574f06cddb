// Sessions as the options set them up: each lease finds the settings, even if earlier leases
// have changed them. A `Case` is as in postgres_settings_test.cpp.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/database.hpp"
#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"

namespace settings {

namespace asio = boost::asio;

/// A lease later than most resets.
inline constexpr int leases = 100;

/// One connection, so that each lease follows a reset of the one before it.
template <class Case>
void every_lease_finds_them(const typename Case::options& with) {
    cenote::pool<typename Case::connection> one{typename Case::connector{with},
                                                support::patient(1)};
    for (int i = 0; i < leases; ++i) {
        auto lease = one.acquire();
        EXPECT_EQ(lease->execute(Case::look).template scalar<std::string>(), Case::seen) << i;
        for (const std::string& text : Case::changes(i)) lease->execute(text);
    }
    EXPECT_EQ(one.stats().opened, 1u);
}

/// Runs a coroutine with a pool of one connection on an event loop.
template <class Case>
void run_with_pool_on_executor(
    const typename Case::options& with,
    std::function<asio::awaitable<void>(cenote::pool<typename Case::connection>&)> what) {
    asio::io_context io;
    cenote::pool<typename Case::connection> one{io, typename Case::async_connector{with},
                                                support::patient(1)};
    auto all = [&]() -> asio::awaitable<void> {
        co_await what(one);
        co_await one.async_close(support::plenty, asio::use_awaitable);
    };
    asio::co_spawn(io, all(), [&](const std::exception_ptr& error) {
        EXPECT_EQ(error, nullptr);
        io.stop();
    });
    io.run();
}

template <class Case>
asio::awaitable<void> look_and_change(cenote::pool<typename Case::connection>& one) {
    for (int i = 0; i < leases; ++i) {
        auto lease = co_await one.async_acquire(asio::use_awaitable);
        auto seen = co_await lease->async_execute(Case::look);
        EXPECT_EQ(seen.template scalar<std::string>(), Case::seen) << i;
        for (const std::string& text : Case::changes(i)) co_await lease->async_execute(text);
    }
    EXPECT_EQ(one.stats().opened, 1u);
}

template <class Case>
void every_awaited_lease_finds_them(const typename Case::options& with) {
    run_with_pool_on_executor<Case>(with, &look_and_change<Case>);
}

template <class Case>
void statements_of_a_database_find_them(const typename Case::options& with,
                                        bool trust_statements = false) {
    cenote::database db(with, {.pool = support::patient(1), .trust_statements = trust_statements});
    for (int i = 0; i < leases; ++i) {
        EXPECT_EQ(db.execute(Case::look).template scalar<std::string>(), Case::seen) << i;
        for (const std::string& text : Case::changes(i)) db.execute(text);
    }
    EXPECT_EQ(db.stats().opened, 1u);
}

/// Also after an error, and after a transaction that was left open.
template <class Case>
void leases_after_errors_find_them(const typename Case::options& with) {
    cenote::pool<typename Case::connection> one{typename Case::connector{with},
                                                support::patient(1)};
    for (int i = 0; i < leases / 4; ++i) {
        auto lease = one.acquire();
        EXPECT_EQ(lease->execute(Case::look).template scalar<std::string>(), Case::seen) << i;
        if (i % 2 == 1) lease->execute("begin");
        for (const char* text : Case::changes_in_a_transaction) lease->execute(text);
        if (i % 3 != 1) continue;
        EXPECT_THROW(lease->execute("select nothing"), cenote::statement_error);
    }
    EXPECT_EQ(one.stats().opened, 1u);
}

template <class Case>
void scopes_and_transactions_of_a_database_find_them(const typename Case::options& with) {
    cenote::database db(with, {.pool = support::patient(1)});
    auto look = [](auto& on) {
        EXPECT_EQ(on.execute(Case::look).template scalar<std::string>(), Case::seen);
    };
    for (int i = 0; i < leases / 4; ++i) {
        {
            cenote::scope scope = db.scope();
            look(scope);
            for (const std::string& text : Case::changes(i)) scope.execute(text);
        }
        db.transaction([&](cenote::transaction& t) {
            look(t);
            for (const char* text : Case::changes_in_a_transaction) t.execute(text);
        });
        auto fail = [&](cenote::transaction& t) {
            look(t);
            for (const char* text : Case::changes_in_a_transaction) t.execute(text);
            t.execute("select nothing");
        };
        EXPECT_THROW(db.transaction(fail), cenote::statement_error);
    }
    EXPECT_EQ(db.stats().opened, 1u);
}

}  // namespace settings

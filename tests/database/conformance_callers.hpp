// The line of the program and the task to which leases, timeouts and leaks attribute a connection.
//
// The calls are written out in both forms, since the test compares the line of each call.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <source_location>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/database.hpp"
#include "cenote/error.hpp"
#include "cenote/event.hpp"
#include "database/forms.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/recorder.hpp"

namespace cenote::conformance {

using testing::ContainsRegex;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StrEq;

constexpr const char* this_file = "conformance_callers.hpp";

inline unsigned line_here(std::source_location at = std::source_location::current()) {
    return at.line();
}

/// Expects a single lease, which belongs to this line of this file. `task`: null for none.
inline void expect_lease(const database& db, unsigned line, const char* task) {
    for (const pool_control& each : db.controls()) {
        for (const lease_info& l : each.leases()) {
            EXPECT_EQ(l.site.line(), line);
            EXPECT_THAT(l.site.file_name(), EndsWith(this_file));
            EXPECT_STREQ(l.task, task) << "line " << line;
        }
    }
    EXPECT_EQ(db.stats().leased, 1u) << "line " << line;
}

/// `Db` is a database or a view of one.
template <class Db>
void expect_named_when_blocking(const database& in, Db on, const char* task) {
    unsigned line = 0;
    {
        auto s = on.scope();
        line = line_here() - 1;
        s.execute("SELECT 1");
        expect_lease(in, line, task);
        auto t = s.begin();
        expect_lease(in, line, task);
    }
    {
        auto s = on.scope({.read_only = true});
        line = line_here() - 1;
        s.query("SELECT 1");
        expect_lease(in, line, task);
    }
    {
        auto t = on.begin();
        expect_lease(in, line_here() - 1, task);
    }
    {
        auto t = on.begin({.read_only = true});
        expect_lease(in, line_here() - 1, task);
    }
    {
        auto rows = on.stream("SELECT 1");
        expect_lease(in, line_here() - 1, task);
    }
    auto look = [&](transaction&) { expect_lease(in, line, task); };
    line = line_here() + 1;
    on.transaction(look);
    line = line_here() + 1;
    on.transaction(look, {.retries = 1});
}

template <class Db>
boost::asio::awaitable<void> expect_named_when_awaited(const database* in, Db* on,
                                                       const char* task) {
    unsigned line = 0;
    {
        auto s = on->scope();
        line = line_here() - 1;
        co_await s.async_execute("SELECT 1");
        expect_lease(*in, line, task);
        auto t = co_await s.async_begin();
        expect_lease(*in, line, task);
        co_await t.async_rollback();
    }
    {
        auto s = on->scope({.read_only = true});
        line = line_here() - 1;
        co_await s.async_query("SELECT 1");
        expect_lease(*in, line, task);
    }
    {
        auto t = co_await on->async_begin();
        expect_lease(*in, line_here() - 1, task);
        co_await t.async_rollback();
    }
    {
        auto t = co_await on->async_begin(boost::asio::use_awaitable);
        expect_lease(*in, line_here() - 1, task);
        co_await t.async_rollback();
    }
    {
        auto t = co_await on->async_begin({.read_only = true});
        expect_lease(*in, line_here() - 1, task);
        co_await t.async_rollback();
    }
    {
        auto rows = co_await on->async_stream("SELECT 1");
        expect_lease(*in, line_here() - 1, task);
    }
    auto look = [&](transaction&) -> boost::asio::awaitable<void> {
        expect_lease(*in, line, task);
        co_return;
    };
    line = line_here() + 1;
    co_await on->async_transaction(look);
    line = line_here() + 1;
    co_await on->async_transaction(look, boost::asio::use_awaitable);
    line = line_here() + 1;
    co_await on->async_transaction(look, {.retries = 1});
}

/// For each place. The tests contain both forms.
template <class Place>
struct any_called_database : testing::Test {
    Place at;
    database db{at.url(), {.pool = support::patient(2)}};
    boost::asio::io_context& io = loop(0);
};
TYPED_TEST_SUITE_P(any_called_database);

TYPED_TEST_P(any_called_database, names_the_line_that_holds_a_connection) {
    database& all = this->db;
    expect_named_when_blocking<database&>(all, all, nullptr);
    await_on(this->io, expect_named_when_awaited(&all, &all, nullptr));
    database only = database::direct(this->at.url());
    expect_named_when_blocking<database&>(only, only, nullptr);
}

TYPED_TEST_P(any_called_database, names_the_task_of_a_view) {
    database_view view = this->db.with({.task = "checkout"});
    expect_named_when_blocking(this->db, view, "checkout");
    await_on(this->io, expect_named_when_awaited(&this->db, &view, "checkout"));
    database only = database::direct(this->at.url());
    expect_named_when_blocking(only, only.with({.task = "report"}), "report");
}

TYPED_TEST_P(any_called_database, names_the_line_and_task_of_the_holder_in_a_timeout) {
    database only = database::direct(this->at.url());
    auto holder = only.with({.task = "checkout"}).scope();
    unsigned line = line_here() - 1;
    holder.execute("SELECT 1");
    auto told = ContainsRegex("1 of 1 leased \\(" + std::string(this_file) + ":" +
                              std::to_string(line) + " \"checkout\" holds 1");
    auto expect_told = [&](auto ask) {
        try {
            ask();
            FAIL() << "the scope has the only connection";
        } catch (const timed_out_error& e) {
            EXPECT_THAT(e.what(), told);
        }
    };
    database_view at_once = only.with({.timeout = std::chrono::nanoseconds(1)});
    auto late = at_once.scope();
    expect_told([&] { at_once.execute("SELECT 1"); });
    expect_told([&] { at_once.query(idempotent, "SELECT 1"); });
    expect_told([&] { at_once.stream("SELECT 1"); });
    expect_told([&] { (void)at_once.begin(); });
    expect_told([&] { at_once.transaction([](transaction&) {}); });
    expect_told([&] { late.execute("SELECT 1"); });
    expect_told([&] { await_on(this->io, at_once.async_execute("SELECT 1")); });
    expect_told([&] { await_on(this->io, at_once.async_query(idempotent, "SELECT 1")); });
    expect_told([&] { await_on(this->io, at_once.async_stream("SELECT 1")); });
    expect_told([&] { await_on(this->io, at_once.async_begin()); });
    expect_told([&] { await_on(this->io, late.async_execute("SELECT 1")); });
}

TYPED_TEST_P(any_called_database, does_not_queue_if_the_view_says_so) {
    database only = database::direct(this->at.url(), {.pool = {.acquire_timeout = forever}});
    auto holder = only.scope();
    holder.execute("SELECT 1");
    database_view elsewhere = only.with({.queue = false});
    EXPECT_THROW(elsewhere.execute("SELECT 1"), line_full_error);
    EXPECT_THROW(await_on(this->io, elsewhere.async_execute("SELECT 1")), line_full_error);
    EXPECT_THROW((void)elsewhere.begin(), line_full_error);
}

/// A thread that waits while it holds a connection is reported with the line that waits.
TYPED_TEST_P(any_called_database, names_the_line_of_a_statement_that_waits) {
    auto watch = std::make_shared<support::recorder>(std::set{cenote::event_kind::nested_acquire});
    database only = database::direct(this->at.url(), {.pool = {.observers = {watch}}});
    auto holder = only.scope();
    holder.execute("SELECT 1");
    database_view briefly = only.with({.timeout = std::chrono::milliseconds(1)});
    EXPECT_THROW(briefly.execute("SELECT 1"), timed_out_error);
    unsigned line = line_here() - 1;
    ASSERT_TRUE(eventually([&] { return !watch->seen().empty(); }));
    EXPECT_EQ(watch->seen()[0].site.line(), line);
    EXPECT_THAT(watch->seen()[0].site.file_name(), EndsWith(this_file));
}

/// A call that waits for a connection waits in the trace of its view.
TYPED_TEST_P(any_called_database, tells_observers_whose_trace_has_waited) {
    auto watch = std::make_shared<support::recorder>(
        std::set{cenote::event_kind::waited, cenote::event_kind::exhausted});
    options pool = support::patient(1);
    pool.observers = {watch};
    database only{this->at.url(), {.pool = pool}};
    std::uint8_t calls = 0;
    auto event_of = [&](const trace_context& trace) {
        std::optional<event> found;
        EXPECT_TRUE(eventually([&] {
            for (const event& each : watch->seen())
                if (each.trace == trace) found = each;
            return found.has_value();
        }));
        return found.value_or(event{});
    };
    auto expect_waits = [&](auto call) {
        trace_context trace{.trace_id = {7}, .span_id = {++calls}};
        std::optional<scope> holder = only.scope();
        holder->execute("SELECT 1");
        std::jthread waiting([&] {
            database_view view = only.with({.task = "checkout", .trace = trace});
            call(view);
        });
        EXPECT_TRUE(eventually([&] { return only.stats().waiting == 1; }));
        holder.reset();
        waiting.join();
        event told = event_of(trace);
        EXPECT_EQ(told.kind, event_kind::waited);
        EXPECT_STREQ(told.task, "checkout");
        EXPECT_THAT(told.site.file_name(), EndsWith(this_file));
        holder = only.scope();
        holder->execute("SELECT 1");
        trace.span_id[1] = 1;
        database_view briefly =
            only.with({.timeout = std::chrono::milliseconds(1), .trace = trace});
        EXPECT_THROW(call(briefly), timed_out_error);
        EXPECT_EQ(event_of(trace).kind, event_kind::exhausted);
    };
    expect_waits([](database_view& v) { v.execute("SELECT 1"); });
    expect_waits([](database_view& v) { v.scope().execute("SELECT 1"); });
    expect_waits([](database_view& v) { static_cast<void>(v.begin()); });
    expect_waits([&](database_view& v) { await_on(this->io, v.async_execute("SELECT 1")); });
    expect_waits([&](database_view& v) { static_cast<void>(await_on(this->io, v.async_begin())); });
}

TYPED_TEST_P(any_called_database, names_the_line_and_task_of_a_leak) {
    using std::chrono::milliseconds;
    support::stopped_clock time;
    auto watch = std::make_shared<support::recorder>(std::set{cenote::event_kind::leak_suspected});
    options pool = support::patient(1);
    pool.observers = {watch};
    database only{this->at.url(), {.pool = pool}};
    auto s = only.with({.task = "report", .leak_after = milliseconds(20)}).scope();
    unsigned line = line_here() - 1;
    s.execute("SELECT 1");
    ASSERT_TRUE(eventually([&] {
        time.advance(milliseconds(5));
        return watch->count(event_kind::leak_suspected) > 0;
    }));
    event leak = watch->seen()[0];
    EXPECT_EQ(leak.site.line(), line);
    EXPECT_THAT(leak.site.file_name(), EndsWith(this_file));
    EXPECT_THAT(leak.task, StrEq("report"));
}

REGISTER_TYPED_TEST_SUITE_P(any_called_database, names_the_line_that_holds_a_connection,
                            names_the_task_of_a_view,
                            names_the_line_and_task_of_the_holder_in_a_timeout,
                            does_not_queue_if_the_view_says_so,
                            names_the_line_of_a_statement_that_waits,
                            tells_observers_whose_trace_has_waited,
                            names_the_line_and_task_of_a_leak);

}  // namespace cenote::conformance

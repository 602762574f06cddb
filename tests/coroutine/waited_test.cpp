// How long an acquire has waited, and for which trace, in all forms of an acquire: what the lease
// says, and what observers are told.
#include <algorithm>
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <source_location>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/coroutine.hpp"
#include "cenote/per_executor.hpp"
#include "cenote/pool.hpp"
#include "cenote/request_scope.hpp"
#include "cenote/testing.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/recorder.hpp"
#include "support/server.hpp"
#include "support/task.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using cenote::acquire_options;
using cenote::errc;
using cenote::event;
using cenote::event_kind;
using cenote::trace_context;
using std::chrono::steady_clock;
using support::connector;
using support::eventually;
using support::hooked_connector;
using support::latch;
using support::plenty;
using support::recorder;
using support::rounds;
using support::server;
using support::session;
using support::task;
using session_lease = cenote::lease<session>;
using session_pool = cenote::pool<session>;

namespace {

/// A trace of its own for each number.
trace_context trace_of(std::uint32_t number) {
    trace_context made;
    for (std::size_t i = 0; i < 4; ++i) {
        made.trace_id[i] = static_cast<std::uint8_t>(number >> (8 * i));
        made.span_id[i] = static_cast<std::uint8_t>(~number >> (8 * i));
    }
    made.trace_id[15] = made.span_id[7] = 1;
    made.flags = 1;
    return made;
}

/// An acquire, perhaps still under way.
struct acquiring {
    std::vector<session_lease> leases;
    std::error_code error;
    std::atomic<bool> done{false};

    void end(session_lease got) {
        if (got) leases.push_back(std::move(got));
        done = true;
    }
};
using pending = std::shared_ptr<acquiring>;

/// Where acquires run.
struct stage {
    std::optional<session_pool> pool;
    asio::io_context io;
    asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
    std::list<task> coroutines;
    std::vector<std::jthread> threads;
    std::jthread loop{[this] { io.run(); }};

    ~stage() {
        threads.clear();
        pool.reset();
        work.reset();
    }
};

// The forms of an acquire. Each is given options that last until it has ended.

void by_thread(stage& on, const acquire_options& how, const pending& to) {
    on.threads.emplace_back([&on, how, to] { to->end(on.pool->acquire(how, to->error)); });
}

void by_thread_several(stage& on, const acquire_options& how, const pending& to) {
    on.threads.emplace_back([&on, how, to] {
        to->leases = on.pool->acquire_many(2, how, to->error);
        to->done = true;
    });
}

task await_in_coroutine(session_pool* from, acquire_options how, pending to) {
    session_lease got = co_await from->co_acquire(how, to->error);
    to->end(std::move(got));
}

void by_coroutine(stage& on, const acquire_options& how, const pending& to) {
    on.coroutines.push_back(await_in_coroutine(&*on.pool, how, to));
    on.coroutines.back().start();
}

void by_handler(stage& on, const acquire_options& how, const pending& to) {
    on.pool->async_acquire(
        how, asio::bind_executor(on.io, [to](boost::system::error_code error, session_lease got) {
            to->error = error;
            to->end(std::move(got));
        }));
}

asio::awaitable<void> await_operation(session_pool* from, acquire_options how, pending to) {
    try {
        session_lease got = co_await from->async_acquire(how, asio::use_awaitable);
        to->end(std::move(got));
    } catch (const cenote::pool_error& e) {
        to->error = e.code();
        to->done = true;
    }
}

asio::awaitable<void> await_in_asio(session_pool* from, acquire_options how, pending to) {
    try {
        session_lease got = co_await from->co_acquire(how);
        to->end(std::move(got));
    } catch (const cenote::pool_error& e) {
        to->error = e.code();
        to->done = true;
    }
}

void by_awaited_operation(stage& on, const acquire_options& how, const pending& to) {
    asio::co_spawn(on.io, await_operation(&*on.pool, how, to), asio::detached);
}

void by_asio_coroutine(stage& on, const acquire_options& how, const pending& to) {
    asio::co_spawn(on.io, await_in_asio(&*on.pool, how, to), asio::detached);
}

struct form {
    const char* name;
    void (*start)(stage&, const acquire_options&, const pending&);
    std::size_t wants = 1;
};

constexpr form forms[] = {{"blocking", by_thread},
                          {"several", by_thread_several, 2},
                          {"coroutine", by_coroutine},
                          {"handler", by_handler},
                          {"awaited_operation", by_awaited_operation},
                          {"coroutine_of_asio", by_asio_coroutine}};

/// Time stands still. Each test runs with an observer and without one: then waiters are served on
/// shorter paths.
struct waits : testing::TestWithParam<std::tuple<form, bool>> {
    support::stopped_clock time;
    std::shared_ptr<server> to = server::start();
    std::shared_ptr<recorder> watch =
        std::make_shared<recorder>(std::set{event_kind::waited, event_kind::exhausted});
    stage on;

    const form& how() const { return std::get<0>(GetParam()); }
    bool watched() const { return std::get<1>(GetParam()); }
    std::size_t wants() const { return how().wants; }

    /// A pool that can serve one acquire of the form at a time.
    template <class Connector = connector>
    void make(cenote::options settings = {}) {
        settings.name = "orders";
        settings.max = wants();
        settings.acquire_timeout = settings.open_timeout = settings.close_timeout = plenty;
        settings.probe_after_idle = cenote::forever;
        settings.fairness = cenote::fairness::strict;
        if (watched()) settings.observers = {watch};
        on.pool.emplace(Connector{to}, settings);
    }
    pending start(const acquire_options& with = {}) {
        auto made = std::make_shared<acquiring>();
        how().start(on, with, made);
        return made;
    }
    /// Starts one, and returns when `count` acquires wait.
    pending start_waiting(std::size_t count, const acquire_options& with = {}) {
        pending made = start(with);
        EXPECT_TRUE(eventually([&] { return on.pool->stats().waiting == count; }));
        return made;
    }
    void expect(const pending& it, std::chrono::nanoseconds waited, bool opened_here) {
        ASSERT_TRUE(eventually([&] { return it->done.load(); }));
        EXPECT_EQ(it->error, std::error_code());
        ASSERT_EQ(it->leases.size(), wants());
        for (const session_lease& each : it->leases) {
            EXPECT_EQ(each.waited(), waited);
            EXPECT_EQ(each.opened_here(), opened_here);
        }
    }
    /// The events so far. Empty without an observer.
    std::vector<event> told(std::size_t count) {
        EXPECT_TRUE(eventually([&] { return watch->seen().size() >= (watched() ? count : 0); }));
        return watch->seen();
    }
    void expect_event(const event& what, event_kind kind, std::chrono::nanoseconds took,
                      std::uint32_t number) {
        EXPECT_EQ(what.kind, kind);
        EXPECT_EQ(what.took, took);
        EXPECT_EQ(what.at, steady_clock::now());
        EXPECT_EQ(what.trace, trace_of(number));
        EXPECT_STREQ(what.task, "checkout");
        EXPECT_NE(std::string_view(what.site.file_name()).find("waited_test.cpp"),
                  std::string_view::npos);
    }
};

acquire_options with_trace(std::uint32_t number) {
    return {.task = "checkout", .trace = trace_of(number)};
}

/// The threads of the pool tell the observer of a wait shortly after it ended.
TEST_P(waits, for_a_lease_of_another) {
    make();
    auto held = on.pool->acquire_many(wants());
    std::size_t before = told(1).size();  // the first acquire waited for its opens
    pending one = start_waiting(1, with_trace(1));
    time.advance(250ms);
    held.clear();
    expect(one, 250ms, false);
    std::vector<event> all = told(before + 1);
    if (!watched()) return;
    ASSERT_EQ(all.size(), before + 1);
    expect_event(all.back(), event_kind::waited, 250ms, 1);
    EXPECT_FALSE(all.back().opened_here);
    EXPECT_NE(all.back().resource, 0U);
    EXPECT_EQ(all.back().pool, "orders");
}

TEST_P(waits, in_a_line) {
    make();
    auto held = on.pool->acquire_many(wants());
    std::vector<pending> line;
    for (std::size_t i = 0; i < 5; ++i) {
        line.push_back(start_waiting(i + 1, with_trace(static_cast<std::uint32_t>(i))));
        time.advance(10ms);
    }
    held.clear();
    auto waited = 50ms;
    for (pending& each : line) {
        expect(each, waited, false);
        time.advance(3ms);
        waited += 3ms - 10ms;
        each->leases.clear();
    }
}

TEST_P(waits, for_its_own_open) {
    latch server_is_up;
    to->on_open = [=](int) { server_is_up.wait(); };
    make();
    pending one = start(with_trace(7));
    ASSERT_TRUE(eventually([&] { return server_is_up.waiting() == static_cast<int>(wants()); }));
    time.advance(30ms);
    server_is_up.open();
    expect(one, 30ms, true);
    std::vector<event> all = told(1);
    if (watched()) {
        ASSERT_EQ(all.size(), 1U);
        expect_event(all.back(), event_kind::waited, 30ms, 7);
        EXPECT_TRUE(all.back().opened_here);
    }
    // A second lease of the same resources has not waited, on whichever path it comes.
    for (int i = 0; i < 3; ++i) {
        one->leases.clear();
        one = start();
        expect(one, 0ns, false);
    }
    EXPECT_EQ(told(0).size(), watched() ? 1U : 0U) << "there was no wait to be told of";
}

TEST_P(waits, not_for_what_was_open_before) {
    make({.min_size = wants(), .warm_up = cenote::warm_up::wait});
    expect(start(), 0ns, false);
    EXPECT_TRUE(told(0).empty());
}

/// Both were in line when the resource was opened, but only the first was waiting for it.
TEST_P(waits, for_the_open_of_another) {
    make();
    on.pool->pause();
    pending first = start_waiting(1);
    pending second = start_waiting(2);
    time.advance(20ms);
    on.pool->resume();
    expect(first, 20ms, true);
    time.advance(5ms);
    first->leases.clear();
    expect(second, 25ms, false);
}

/// The clock goes on from the arrival until there is a resource that can be used.
TEST_P(waits, beyond_a_resource_that_was_unfit) {
    make<hooked_connector>();
    auto held = on.pool->acquire_many(wants());
    pending one = start_waiting(1, with_trace(3));
    time.advance(40ms);
    std::atomic<bool> spoiled{false};
    to->on_acquire = [&](int) { return spoiled.exchange(true); };
    held.clear();
    ASSERT_TRUE(eventually([&] { return one->done.load(); }));
    ASSERT_EQ(one->leases.size(), wants());
    EXPECT_EQ(one->leases.front().waited(), 40ms);
    bool opened = false;
    for (const session_lease& each : one->leases) opened = opened || each.opened_here();
    EXPECT_TRUE(opened) << "the unfit one was replaced";
    for (const event& each : watch->seen()) {
        if (each.trace != trace_of(3)) continue;
        expect_event(each, event_kind::waited, 40ms, 3);
    }
}

std::string name_of(const testing::TestParamInfo<waits::ParamType>& of) {
    return std::string(std::get<0>(of.param).name) + (std::get<1>(of.param) ? "_watched" : "");
}

INSTANTIATE_TEST_SUITE_P(all_forms, waits,
                         testing::Combine(testing::ValuesIn(forms), testing::Bool()), name_of);

// Refusals.

struct refusals : waits {
    /// A pool whose resources are all in use.
    void make_busy() {
        make();
        others = on.pool->acquire_many(wants());
        before = told(1).size();
    }
    void expect_refused(const pending& it, errc why, std::chrono::nanoseconds took,
                        std::uint32_t number) {
        ASSERT_TRUE(eventually([&] { return it->done.load(); }));
        EXPECT_EQ(it->error, why);
        EXPECT_TRUE(it->leases.empty());
        std::vector<event> all = watch->seen();  // told before the caller is refused
        ASSERT_EQ(all.size(), before + 1);
        expect_event(all.back(), event_kind::exhausted, took, number);
        EXPECT_EQ(all.back().error, why);
    }

    std::vector<session_lease> others;
    std::size_t before = 0;
};

TEST_P(refusals, at_the_deadline) {
    make_busy();
    acquire_options briefly = with_trace(11);
    briefly.timeout = 100ms;
    pending one = start_waiting(1, briefly);
    time.advance(100ms);
    expect_refused(one, errc::timed_out, 100ms, 11);
}

TEST_P(refusals, by_a_stop_token) {
    make_busy();
    std::stop_source stop;
    std::stop_token token = stop.get_token();
    acquire_options stoppable = with_trace(12);
    stoppable.stop = token;
    pending one = start_waiting(1, stoppable);
    time.advance(60ms);
    stop.request_stop();
    expect_refused(one, errc::canceled, 60ms, 12);
}

TEST_P(refusals, by_the_end_of_the_pool) {
    make_busy();
    pending one = start_waiting(1, with_trace(13));
    time.advance(70ms);
    on.pool->close();
    expect_refused(one, errc::closed, 70ms, 13);
}

TEST_P(refusals, at_once) {
    make_busy();
    time.advance(5ms);
    acquire_options now_or_never = with_trace(14);
    now_or_never.queue = false;
    expect_refused(start(now_or_never), errc::line_full, 0ns, 14);
    ++before;
    on.pool->deactivate();
    expect_refused(start(with_trace(15)), errc::unavailable, 0ns, 15);
}

INSTANTIATE_TEST_SUITE_P(all_forms, refusals,
                         testing::Combine(testing::ValuesIn(forms), testing::Values(true)),
                         name_of);

}  // namespace

// Leases that have not waited.

TEST(a_lease, of_a_pool_without_a_wait_has_waited_zero) {
    session_pool pool{connector{server::start()}, {.max = 1, .acquire_timeout = plenty}};
    session_lease lease = pool.acquire();
    EXPECT_TRUE(lease.opened_here());
    lease.give_back();
    EXPECT_EQ(lease.waited(), 0ns) << "an empty lease";
    EXPECT_FALSE(lease.opened_here());
    lease = pool.try_acquire();
    ASSERT_TRUE(lease);
    EXPECT_EQ(lease.waited(), 0ns);
    EXPECT_FALSE(lease.opened_here());
    lease.give_back();
    // From the shelf. The keeper's last grant says nothing of such a lease.
    cenote::detail::gate& gate = cenote::detail::pool_access::of(pool);
    cenote::detail::resource* r = nullptr;
    ASSERT_TRUE(eventually([&] {
        static_cast<void>(pool.acquire());
        r = gate.take(std::source_location::current(), 0);
        return r != nullptr;
    }));
    r->waited = 5s;
    r->opened_here = true;
    lease = cenote::detail::lease_maker::of<session>(r);
    EXPECT_EQ(lease.waited(), 0ns);
    EXPECT_FALSE(lease.opened_here());
    session_lease moved = std::move(lease);
    EXPECT_EQ(moved.waited(), 0ns);
}

TEST(a_lease, outlives_its_pool_and_still_knows_its_wait) {
    support::stopped_clock time;
    latch server_is_up;
    auto to = server::start();
    to->on_open = [=](int) { server_is_up.wait(); };
    std::optional<session_pool> pool;
    pool.emplace(connector{to}, cenote::options{.max = 1, .open_timeout = plenty});
    session_lease lease;
    std::jthread waiting([&] { lease = pool->acquire({.timeout = plenty}); });
    ASSERT_TRUE(eventually([&] { return server_is_up.waiting() == 1; }));
    time.advance(15ms);
    server_is_up.open();
    waiting.join();
    pool.reset();
    EXPECT_EQ(lease.waited(), 15ms);
    EXPECT_TRUE(lease.opened_here());
}

/// As users test it: on a manual clock a slow connector moves the time.
TEST(a_lease, has_an_exact_wait_on_a_manual_clock) {
    auto clock = std::make_shared<cenote::manual_clock>();
    auto to = server::start();
    to->on_open = [=](int) { clock->advance(12ms); };
    session_pool pool{connector{to}, {.max = 1, .clock = clock}};
    session_lease lease = pool.acquire();
    EXPECT_EQ(lease.waited(), 12ms);
    EXPECT_TRUE(lease.opened_here());
    lease.give_back();
    lease = pool.acquire();
    EXPECT_EQ(lease.waited(), 0ns);
    EXPECT_FALSE(lease.opened_here());
    lease.discard();
    lease = pool.acquire();
    EXPECT_EQ(lease.waited(), 12ms);
    EXPECT_TRUE(lease.opened_here());
}

TEST(a_request_scope, acquires_in_its_trace) {
    auto watch = std::make_shared<recorder>(std::set{event_kind::waited});
    session_pool pool{connector{server::start()},
                      {.acquire_timeout = plenty, .observers = {watch}}};
    cenote::request_scope<session> scope(pool, {.trace = trace_of(5)});
    static_cast<void>(scope.get());
    ASSERT_TRUE(eventually([&] { return watch->count(event_kind::waited) == 1; }));
    EXPECT_EQ(watch->seen().front().trace, trace_of(5));
}

TEST(per_executor, acquires_in_the_trace_of_the_caller) {
    asio::io_context io;
    auto watch = std::make_shared<recorder>(std::set{event_kind::waited});
    cenote::per_executor<session> pools(
        std::vector{io.get_executor()}, connector{server::start()},
        {.max = 1, .acquire_timeout = plenty, .observers = {watch}});
    std::vector<std::chrono::nanoseconds> waited;
    auto by_coroutine = [&]() -> asio::awaitable<void> {
        acquire_options how{.trace = trace_of(31)};
        session_lease got = co_await pools.async_acquire(how, asio::use_awaitable);
        waited.push_back(got.waited());
        got.discard();
    };
    asio::co_spawn(io, by_coroutine(), asio::detached);
    io.run();
    io.restart();
    pools.async_acquire({.trace = trace_of(32)},
                        asio::bind_executor(io, [&](auto error, session_lease got) {
                            EXPECT_FALSE(error);
                            waited.push_back(got.waited());
                        }));
    io.run();
    ASSERT_TRUE(eventually([&] { return watch->count(event_kind::waited) == 2; }));
    ASSERT_EQ(waited.size(), 2U);
    for (std::uint32_t i : {0U, 1U}) {
        EXPECT_EQ(watch->seen()[i].trace, trace_of(31 + i));
        EXPECT_EQ(watch->seen()[i].took, waited[i]);
    }
}

/// A deferred operation runs when it is called, after the options have gone.
TEST(a_deferred_acquire, keeps_its_trace) {
    asio::io_context io;
    auto watch = std::make_shared<recorder>(std::set{event_kind::waited});
    session_pool pool{connector{server::start()},
                      {.max = 1, .acquire_timeout = plenty, .observers = {watch}}};
    auto how = std::make_unique<acquire_options>(acquire_options{.trace = trace_of(41)});
    auto later = pool.async_acquire(*how, asio::deferred);
    auto awaited = pool.async_acquire(*how, asio::use_awaitable);
    how->trace = trace_of(42);
    how.reset();
    std::move(later)(asio::bind_executor(io, [](auto, session_lease got) { got.discard(); }));
    io.run();
    io.restart();
    auto await_it = [](asio::awaitable<session_lease> it) -> asio::awaitable<void> {
        session_lease got = co_await std::move(it);
        got.discard();
    };
    asio::co_spawn(io, await_it(std::move(awaited)), asio::detached);
    io.run();
    ASSERT_TRUE(eventually([&] { return watch->count(event_kind::waited) == 2; }));
    for (const event& each : watch->seen()) EXPECT_EQ(each.trace, trace_of(41));
}

/// Its frame is gone before an event could be made.
TEST(a_coroutine, that_is_destroyed_while_it_waits_makes_no_event) {
    auto watch = std::make_shared<recorder>(std::set{event_kind::waited, event_kind::exhausted});
    session_pool pool{connector{server::start()},
                      {.max = 1, .acquire_timeout = plenty, .observers = {watch}}};
    session_lease held = pool.acquire();
    auto gone = std::make_shared<acquiring>();
    task waiting = await_in_coroutine(&pool, with_trace(21), gone);
    waiting.start();
    waiting.destroy();
    held.give_back();
    session_lease next = pool.acquire({.trace = trace_of(22)});
    next.give_back();
    EXPECT_EQ(pool.close(plenty), 0U);
    for (const event& each : watch->seen()) EXPECT_NE(each.trace, trace_of(21));
}

// Under load.

namespace {

/// What its borrower knows of an acquire.
struct outcome {
    bool granted = false;
    std::chrono::nanoseconds waited{};
};

/// Acquires until the end, each in a trace of its own, and notes how they ended.
void borrow(session_pool& pool, std::uint32_t first, int times,
            std::map<std::uint32_t, outcome>& ends) {
    for (std::uint32_t number = first; number < first + static_cast<std::uint32_t>(times);
         ++number) {
        std::error_code error;
        bool hurries = number % 5 == 0;
        session_lease got =
            pool.acquire({.timeout = hurries ? 1us : plenty, .trace = trace_of(number)}, error);
        ends[number] = {.granted = static_cast<bool>(got), .waited = got.waited()};
        if (number % 3 == 0) std::this_thread::yield();
        if (number % 11 == 0) got.discard();
    }
}

}  // namespace

TEST(events, carry_the_trace_of_their_own_acquire) {
    constexpr std::uint32_t borrowers = 6;
    const int times = rounds(400);
    auto watch = std::make_shared<recorder>(std::set{event_kind::waited, event_kind::exhausted});
    std::vector<std::map<std::uint32_t, outcome>> ends(borrowers);
    {
        session_pool pool{connector{server::start()},
                          {.max = 2,
                           .acquire_timeout = plenty,
                           .open_timeout = plenty,
                           .close_timeout = plenty,
                           .observers = {watch}}};
        std::vector<std::jthread> threads;
        for (std::uint32_t i = 0; i < borrowers; ++i)
            threads.emplace_back([&, i] { borrow(pool, i * 100'000, times, ends[i]); });
        threads.clear();
        EXPECT_EQ(pool.stats().events_lost, 0U);
    }  // reports all remaining events
    std::map<std::string, std::pair<std::uint32_t, outcome>> known;
    for (const auto& of_one : ends)
        for (const auto& [number, end] : of_one)
            known[trace_of(number).traceparent()] = {number, end};
    std::map<std::uint32_t, int> waits_told;
    std::map<std::uint32_t, int> refusals_told;
    for (const event& each : watch->seen()) {
        auto found = known.find(each.trace.traceparent());
        ASSERT_NE(found, known.end()) << "no acquire has this trace";
        const auto& [number, end] = found->second;
        if (each.kind == event_kind::exhausted) {
            EXPECT_FALSE(end.granted);
            ++refusals_told[number];
            continue;
        }
        EXPECT_TRUE(end.granted);
        EXPECT_EQ(each.took, end.waited);
        ++waits_told[number];
    }
    std::size_t waited = 0;
    for (const auto& [text, one] : known) {
        const auto& [number, end] = one;
        EXPECT_EQ(refusals_told[number], end.granted ? 0 : 1);
        EXPECT_LE(waits_told[number], 1);
        if (end.waited == 0ns) continue;
        EXPECT_EQ(waits_told[number], 1);
        ++waited;
    }
    EXPECT_GT(waited, 0U) << "at least the first acquire waits";
}

// What spdlog_observer logs, at which level, and how it suppresses repetitions.
#include "cenote/spdlog.hpp"

#include <atomic>
#include <memory>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

namespace {

using namespace std::chrono_literals;
using cenote::errc;
using cenote::event;
using cenote::event_kind;
using enum cenote::event_kind;
using support::connector;
using support::eventually;
using support::plenty;
using support::server;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

using session_pool = cenote::pool<support::session>;

/// Stores log lines: level, then text.
struct memory_log {
    std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> sink =
        std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(10'000);
    std::shared_ptr<spdlog::logger> logger = std::make_shared<spdlog::logger>("test", sink);

    explicit memory_log(spdlog::level::level_enum level = spdlog::level::trace) {
        logger->set_level(level);
        logger->set_pattern("%l %v");
    }
    std::vector<std::string> lines() const {
        auto all = sink->last_formatted();
        for (auto& line : all) line.pop_back();  // its newline
        return all;
    }
    std::string last() const { return lines().empty() ? "" : lines().back(); }
};

/// An observer with a clock that the test moves.
class timed_observer : public cenote::spdlog_observer {
public:
    using spdlog_observer::spdlog_observer;
    std::chrono::steady_clock::time_point time{1h};

protected:
    std::chrono::steady_clock::time_point now() const override { return time; }
};

constexpr const char* orders = "orders";

event event_of(event_kind kind) { return {.kind = kind, .pool = orders}; }

std::exception_ptr error_of(const std::string& text) {
    return std::make_exception_ptr(std::runtime_error(text));
}

event failed_open(const std::string& text, std::chrono::nanoseconds took = 20ms) {
    return event{.kind = open_failed, .pool = orders, .took = took, .cause = error_of(text)};
}

/// The line for one event.
std::string line_for(const event& what) {
    memory_log to;
    timed_observer observer(to.logger);
    observer.on_event(what);
    return to.last();
}

}  // namespace

TEST(spdlog_line, of_opens) {
    memory_log to;
    timed_observer observer(to.logger);
    observer.on_event(event{.kind = opened, .pool = orders, .resource = 1, .took = 12ms});
    observer.on_event(event{.kind = opened, .pool = orders, .resource = 2, .took = 2500ms});
    EXPECT_THAT(to.lines(),
                ElementsAre("info pool \"orders\": opened resource 1 in 12 ms, its first",
                            "debug pool \"orders\": opened resource 2 in 2.5 s"));
    EXPECT_EQ(line_for(failed_open("connection refused")),
              "warning pool \"orders\": could not open a resource (20 ms): connection refused");
}

TEST(spdlog_line, of_an_open_that_succeeds_after_failures) {
    memory_log to(spdlog::level::info);
    timed_observer observer(to.logger);
    observer.on_event(event{.kind = opened, .pool = orders, .resource = 1, .took = 1ms});
    for (int i = 0; i < 3; ++i) observer.on_event(failed_open("refused"));
    observer.on_event(event{.kind = opened, .pool = orders, .resource = 5, .took = 1ms});
    observer.on_event(event{.kind = opened, .pool = orders, .resource = 6, .took = 1ms});
    observer.time += 2s;
    observer.on_event(failed_open("refused"));
    observer.on_event(event{.kind = opened, .pool = orders, .resource = 8, .took = 1ms});
    EXPECT_THAT(
        to.lines(),
        ElementsAre("info pool \"orders\": opened resource 1 in 1 ms, its first",
                    "warning pool \"orders\": could not open a resource (20 ms): refused",
                    "info pool \"orders\": opened resource 5 in 1 ms, after 3 failed opens",
                    "warning pool \"orders\": could not open a resource (20 ms): refused",
                    "info pool \"orders\": opened resource 8 in 1 ms, after 1 failed open"));
}

TEST(spdlog_line, of_leases) {
    EXPECT_EQ(line_for(event{.kind = acquired, .pool = orders, .resource = 3, .took = 1500ns}),
              "trace pool \"orders\": granted resource 3 after 1.5 µs");
    EXPECT_EQ(line_for(event{.kind = released, .pool = orders, .resource = 3, .took = 14'200ms}),
              "trace pool \"orders\": resource 3 was released after 14 s");
    EXPECT_EQ(line_for(event{.kind = discarded, .pool = orders, .resource = 3}),
              "debug pool \"orders\": resource 3 was discarded by its holder");
    EXPECT_EQ(line_for(event{.kind = detached, .pool = orders, .resource = 3}),
              "debug pool \"orders\": resource 3 was detached by its holder");
}

TEST(spdlog_line, of_maintenance) {
    EXPECT_EQ(
        line_for(event{
            .kind = retired, .pool = orders, .resource = 4, .why = cenote::retire_reason::age}),
        "debug pool \"orders\": retired resource 4: age");
    EXPECT_EQ(line_for(event{.kind = retired,
                             .pool = orders,
                             .resource = 4,
                             .why = cenote::retire_reason::rejected,
                             .cause = std::make_exception_ptr(std::runtime_error("odd"))}),
              "debug pool \"orders\": retired resource 4: rejected: odd");
    EXPECT_EQ(
        line_for(event{
            .kind = probe_failed, .pool = orders, .resource = 4, .cause = error_of("broken pipe")}),
        "warning pool \"orders\": probe of resource 4 failed: broken pipe");
    EXPECT_EQ(line_for(event{.kind = probe_failed, .pool = orders, .resource = 4}),
              "warning pool \"orders\": probe of resource 4 failed: rejected or timed out");
    EXPECT_EQ(line_for(event{
                  .kind = reset_failed, .pool = orders, .resource = 4, .cause = error_of("busy")}),
              "warning pool \"orders\": reset of resource 4 failed: busy");
    EXPECT_EQ(line_for(event{.kind = closed, .pool = orders, .resource = 4}),
              "debug pool \"orders\": closed resource 4");
    EXPECT_EQ(line_for(event{
                  .kind = closed, .pool = orders, .resource = 4, .cause = error_of("broken pipe")}),
              "warning pool \"orders\": close of resource 4 failed: broken pipe");
}

TEST(spdlog_line, of_refusals) {
    cenote::stats now;
    now.max = 32;
    now.leased = 30;
    now.opening = 2;
    now.waiting = 41;
    EXPECT_EQ(
        line_for(event{.kind = exhausted, .pool = orders, .error = errc::timed_out, .now = &now}),
        "warning pool \"orders\": refused an acquire, timed out waiting for a lease: "
        "30 of 32 leased, 2 opening, 41 waiting");
    EXPECT_EQ(
        line_for(event{.kind = exhausted, .pool = orders, .error = errc::canceled, .now = &now}),
        "debug pool \"orders\": refused an acquire, the acquire was canceled: "
        "30 of 32 leased, 2 opening, 41 waiting");
    EXPECT_THAT(
        line_for(event{.kind = exhausted, .pool = orders, .error = errc::closed, .now = &now}),
        StartsWith("debug pool \"orders\": refused an acquire, the pool is closed: "));
}

TEST(spdlog_line, of_a_blocked_loop_names_the_call_site) {
    auto site = std::source_location::current();
    EXPECT_EQ(line_for(event{.kind = loop_blocked, .pool = orders, .site = site}),
              "warning pool \"orders\": spdlog_test.cpp:" + std::to_string(site.line()) +
                  " blocks the event loop of the pool");
}

TEST(spdlog_line, of_a_leak_names_the_call_site_and_the_task) {
    auto site = std::source_location::current();
    std::string place = "spdlog_test.cpp:" + std::to_string(site.line());
    event leak{.kind = leak_suspected, .pool = orders, .resource = 7, .took = 30s, .site = site};
    EXPECT_EQ(line_for(leak),
              "warning pool \"orders\": resource 7 has been held for 30 s by " + place);
    leak.task = "check\nout";
    EXPECT_EQ(line_for(leak), "warning pool \"orders\": resource 7 has been held for 30 s by " +
                                  place + " \"check out\"");
}

TEST(spdlog_line, of_a_wait_names_the_call_site_and_the_task) {
    auto site = std::source_location::current();
    std::string place = "spdlog_test.cpp:" + std::to_string(site.line());
    event wait{.kind = waited, .pool = orders, .resource = 7, .took = 12ms, .site = site};
    EXPECT_EQ(line_for(wait), "trace pool \"orders\": " + place + " waited 12 ms for resource 7");
    wait.task = "checkout";
    wait.opened_here = true;
    EXPECT_EQ(line_for(wait), "trace pool \"orders\": " + place +
                                  " \"checkout\" waited 12 ms for resource 7, which was opened "
                                  "meanwhile");
}

TEST(spdlog_line, of_the_circuit_breaker) {
    auto line_of = [](cenote::breaker_state state) {
        return line_for(event{.kind = breaker_changed, .pool = orders, .breaker = state});
    };
    EXPECT_EQ(line_of(cenote::breaker_state::inactive),
              "warning pool \"orders\": the circuit breaker is now inactive");
    EXPECT_EQ(line_of(cenote::breaker_state::recovering),
              "debug pool \"orders\": the circuit breaker is now recovering");
    EXPECT_EQ(line_of(cenote::breaker_state::active),
              "info pool \"orders\": the circuit breaker is now active");
}

TEST(spdlog_line, of_a_pause) {
    EXPECT_EQ(line_for(event_of(paused)), "info pool \"orders\": paused, no lease is granted");
    EXPECT_EQ(line_for(event_of(resumed)), "info pool \"orders\": resumed");
}

TEST(spdlog_line, of_the_end) {
    EXPECT_EQ(line_for(event_of(closing)), "info pool \"orders\": closing");
    EXPECT_EQ(line_for(event_of(closed_pool)), "info pool \"orders\": closed, nothing is left");
}

TEST(spdlog_line, exists_for_every_kind) {
    for (std::size_t i = 0; i < cenote::event_kind_count; ++i) {
        auto kind = static_cast<event_kind>(i);
        EXPECT_THAT(line_for(event_of(kind)), MatchesRegex("[a-z]+ pool \"orders\": .+"))
            << to_string(kind);
    }
}

TEST(spdlog_line, is_one_line_for_every_cause) {
    EXPECT_THAT(line_for(failed_open("no route:\n\tis {} the server {0} up?\r\n")),
                EndsWith(": no route: is {} the server {0} up?"));
    EXPECT_THAT(
        line_for(event{.kind = open_failed, .pool = orders, .cause = std::make_exception_ptr(7)}),
        EndsWith(": an exception that is not a std::exception"));
}

TEST(spdlog_flood, is_one_line_a_second_with_a_count) {
    memory_log to;
    timed_observer observer(to.logger);
    for (int i = 0; i < 300; ++i) {  // every 10 ms, 3 s long
        observer.on_event(failed_open("refused", std::chrono::milliseconds(i + 1)));
        observer.time += 10ms;
    }
    EXPECT_THAT(to.lines(),
                ElementsAre("warning pool \"orders\": could not open a resource (1 ms): refused",
                            "warning pool \"orders\": could not open a resource (101 ms): refused "
                            "(99 more left out)",
                            "warning pool \"orders\": could not open a resource (201 ms): refused "
                            "(99 more left out)"));
}

TEST(spdlog_flood, does_not_hide_another_cause_kind_or_pool) {
    memory_log to;
    timed_observer observer(to.logger);
    for (int i = 0; i < 10; ++i) {
        observer.on_event(failed_open("refused"));
        observer.on_event(failed_open("no route"));
        observer.on_event(event{
            .kind = probe_failed, .pool = orders, .resource = 1, .cause = error_of("refused")});
        event other = failed_open("refused");
        other.pool = "users";
        observer.on_event(other);
    }
    EXPECT_EQ(to.lines().size(), 4U);
}

TEST(spdlog_flood, of_different_causes_is_suppressed_too) {
    memory_log to;
    timed_observer observer(to.logger);
    for (int i = 0; i < 1000; ++i) {  // 1 s
        observer.on_event(failed_open("refused by port " + std::to_string(i)));
        observer.time += 1ms;
    }
    EXPECT_EQ(to.lines().size(), 4U);
    observer.on_event(failed_open("refused by port 1000"));
    EXPECT_THAT(to.last(), EndsWith(": refused by port 1000 (996 more left out)"));
}

TEST(spdlog_flood, of_alternating_failures_and_successes_is_suppressed_too) {
    memory_log to(spdlog::level::info);
    timed_observer observer(to.logger);
    for (int i = 0; i < 100; ++i) {  // 1 s
        observer.on_event(failed_open("refused"));
        observer.on_event(event{.kind = opened, .pool = orders, .took = 1ms});
        observer.time += 10ms;
    }
    EXPECT_EQ(to.lines().size(), 2U);
    observer.on_event(event{.kind = opened, .pool = orders, .resource = 9, .took = 1ms});
    EXPECT_EQ(to.last(), "info pool \"orders\": opened resource 9 in 1 ms, after 99 failed opens");
}

TEST(spdlog_flood, is_summed_up_at_the_end_of_the_pool) {
    memory_log to;
    timed_observer observer(to.logger);
    for (int i = 0; i < 5; ++i) observer.on_event(failed_open("refused"));
    for (int i = 0; i < 3; ++i) observer.on_event(event_of(probe_failed));
    observer.on_event(event_of(closed_pool));
    auto lines = to.lines();
    ASSERT_EQ(lines.size(), 5U);
    EXPECT_EQ(lines[2], "warning pool \"orders\": 4 more of open_failed left out");
    EXPECT_EQ(lines[3], "warning pool \"orders\": 2 more of probe_failed left out");
    EXPECT_EQ(lines[4], "info pool \"orders\": closed, nothing is left");
    // The next pool of this name is another one.
    observer.on_event(failed_open("refused"));
    observer.on_event(event{.kind = opened, .pool = orders, .resource = 1, .took = 1ms});
    EXPECT_THAT(to.last(), EndsWith("in 1 ms, its first, after 1 failed open"));
}

TEST(spdlog_flood, is_summed_up_for_a_log_of_warnings_only) {
    memory_log to(spdlog::level::warn);
    timed_observer observer(to.logger);
    for (int i = 0; i < 5; ++i) observer.on_event(failed_open("refused"));
    EXPECT_TRUE(observer.wants(closed_pool));
    observer.on_event(event_of(closed_pool));
    EXPECT_EQ(to.last(), "warning pool \"orders\": 4 more of open_failed left out");
}

TEST(spdlog_level, decides_which_events_are_wanted) {
    auto wanted_at = [](spdlog::level::level_enum level) {
        memory_log to(level);
        timed_observer observer(to.logger);
        std::string words;
        for (std::size_t i = 0; i < cenote::event_kind_count; ++i)
            if (auto kind = static_cast<event_kind>(i); observer.wants(kind))
                words += std::string(to_string(kind)) + ' ';
        return words;
    };
    using namespace spdlog;
    EXPECT_EQ(wanted_at(level::off), "");
    EXPECT_EQ(wanted_at(level::err), "");
    std::string at_info = wanted_at(level::info);
    EXPECT_THAT(at_info, AllOf(HasSubstr("opened "), HasSubstr("open_failed "),
                               HasSubstr("closing "), HasSubstr("closed_pool ")));
    EXPECT_THAT(at_info, Not(HasSubstr("retired ")));
    EXPECT_THAT(wanted_at(level::warn), Not(HasSubstr("opened ")));
    EXPECT_THAT(wanted_at(level::warn), HasSubstr("exhausted "));
    EXPECT_THAT(wanted_at(level::debug), Not(HasSubstr("acquired ")));
    EXPECT_THAT(wanted_at(level::debug), Not(HasSubstr("released ")));
    EXPECT_THAT(wanted_at(level::debug), Not(HasSubstr("waited ")));
    EXPECT_THAT(wanted_at(level::trace), HasSubstr("acquired "));
}

TEST(spdlog_level, that_was_raised_later_is_respected) {
    memory_log to;
    timed_observer observer(to.logger);
    to.logger->set_level(spdlog::level::err);
    for (std::size_t i = 0; i < cenote::event_kind_count; ++i)
        observer.on_event(event_of(static_cast<event_kind>(i)));
    EXPECT_THAT(to.lines(), IsEmpty());
}

TEST(spdlog_observer, logs_the_life_of_a_pool) {
    memory_log to(spdlog::level::debug);
    {
        auto watch = std::make_shared<cenote::spdlog_observer>(to.logger);
        session_pool pool{connector{server::start()},
                          {.name = "life", .max = 1, .observers = {watch}}};
        pool.acquire().discard();
        (void)pool.acquire();
        EXPECT_EQ(pool.close(plenty), 0U);
    }  // reports all remaining events
    EXPECT_THAT(
        to.lines(),
        ElementsAre(
            MatchesRegex("info pool \"life\": opened resource [0-9]+ in .+s, its first"),
            MatchesRegex("debug pool \"life\": resource [0-9]+ was discarded by its holder"),
            MatchesRegex("debug pool \"life\": closed resource [0-9]+"),
            MatchesRegex("debug pool \"life\": opened resource [0-9]+ in .+s"),
            "info pool \"life\": closing",
            MatchesRegex("debug pool \"life\": closed resource [0-9]+"),
            "info pool \"life\": closed, nothing is left"));
}

TEST(spdlog_observer, logs_to_the_given_logger_or_the_default_one) {
    std::ostringstream text;
    auto before = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "text", std::make_shared<spdlog::sinks::ostream_sink_mt>(text)));
    spdlog::set_pattern("%l %v");
    cenote::spdlog_observer observer;
    spdlog::set_default_logger(before);
    observer.on_event(event_of(closing));
    EXPECT_EQ(text.str(), "info pool \"orders\": closing\n");
    EXPECT_THROW(cenote::spdlog_observer{nullptr}, std::invalid_argument);
}

TEST(spdlog_observer, costs_the_fast_lane_only_at_trace_level) {
    auto reported = [](spdlog::level::level_enum level) {
        memory_log to(level);
        auto home = server::start();
        {
            auto watch = std::make_shared<cenote::spdlog_observer>(to.logger);
            session_pool pool{connector{home}, {.observers = {watch}}};
            for (int i = 0; i < 100; ++i) (void)pool.acquire();
        }
        return to.lines().size();
    };
    EXPECT_EQ(reported(spdlog::level::info), 3U);     // its first open, closing, closed
    EXPECT_EQ(reported(spdlog::level::debug), 4U);    // and the close of its resource
    EXPECT_EQ(reported(spdlog::level::trace), 205U);  // 100 leases, and the wait for the open
}

namespace {

/// spdlog passes on exceptions that are no std::exception, and those of its error handler.
struct broken_sink : spdlog::sinks::base_sink<std::mutex> {
    std::atomic<int> calls{0};

    void sink_it_(const spdlog::details::log_msg&) override {
        if (++calls % 2 == 0) throw std::runtime_error("the disk is full");
        throw 7;
    }
    void flush_() override {}
};

}  // namespace

TEST(spdlog_observer, ignores_exceptions_of_the_logger) {
    auto sink = std::make_shared<broken_sink>();
    auto logger = std::make_shared<spdlog::logger>("broken", sink);
    logger->set_level(spdlog::level::trace);
    logger->set_error_handler([](const std::string&) { throw std::logic_error("nor that"); });
    auto watch = std::make_shared<cenote::spdlog_observer>(logger);
    auto home = server::start();
    {
        session_pool pool{connector{home}, {.max = 1, .observers = {watch}}};
        for (int i = 0; i < 20; ++i) (void)pool.acquire();
        auto held = pool.acquire();
        EXPECT_THROW((void)pool.acquire_for(1ms), cenote::timed_out_error);
        held.give_back();
        EXPECT_EQ(pool.close(plenty), 0U);
    }
    EXPECT_GE(sink->calls, 40);
    EXPECT_EQ(home->present, 0);
}

TEST(spdlog_observer, serves_several_failing_pools_and_many_threads) {
    memory_log to(spdlog::level::info);
    auto watch = std::make_shared<cenote::spdlog_observer>(to.logger);
    std::atomic<int> refused{0};
    {
        auto down = [](int) { throw support::refused_by_server("down for today"); };
        auto one = server::start();
        auto two = server::start();
        one->on_open = down;
        two->on_open = down;
        session_pool a{connector{one}, {.name = "a", .observers = {watch}}};
        session_pool b{connector{two}, {.name = "b", .observers = {watch}}};
        std::vector<std::jthread> crowd;
        for (int i = 0; i < 8; ++i)
            crowd.emplace_back([&, i] {
                for (int n = 0; n < 20; ++n) {
                    std::error_code error;
                    (void)(i % 2 == 0 ? a : b).acquire({.timeout = 2ms}, error);
                    refused += error ? 1 : 0;
                }
            });
    }
    EXPECT_EQ(refused, 160);
    EXPECT_THAT(to.lines(), Contains(EndsWith("down for today")));
    EXPECT_THAT(to.lines(), Contains("info pool \"a\": closed, nothing is left"));
    EXPECT_THAT(to.lines(), Contains("info pool \"b\": closed, nothing is left"));
    EXPECT_LT(to.lines().size(), 60U);
}

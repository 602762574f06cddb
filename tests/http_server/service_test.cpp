// Answers for pool errors, and the health of pools.
#include "cenote/service.hpp"

#include <atomic>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/error.hpp"
#include "cenote/pool.hpp"
#include "support/patience.hpp"

namespace {

using namespace std::chrono_literals;
using cenote::answer;
using cenote::answer_error;
using cenote::answer_to;
using cenote::breaker_state;
using cenote::errc;
using cenote::service;
using cenote::stats;
using testing::HasSubstr;
using testing::Not;

std::exception_ptr refusal(errc why, std::chrono::nanoseconds retry_after = {}) {
    try {
        cenote::throw_pool_error(why, "checkout.cpp:12 holds 8", nullptr, retry_after);
    } catch (...) {
        return std::current_exception();
    }
}

TEST(service_answer_to, is_503_with_retry_after_for_an_exhausted_pool) {
    for (errc why : {errc::timed_out, errc::line_full, errc::shed, errc::unavailable}) {
        auto a = answer_to(refusal(why));
        ASSERT_TRUE(a) << static_cast<int>(why);
        EXPECT_EQ(a->status(), 503);
        EXPECT_EQ(a->retry_after(), 1s);
        EXPECT_THAT(a->body(), Not(HasSubstr("checkout")));
    }
}

TEST(service_answer_to, rounds_up_to_seconds_and_stays_within_a_minute) {
    EXPECT_EQ(answer_to(refusal(errc::shed, 1ms))->retry_after(), 1s);
    EXPECT_EQ(answer_to(refusal(errc::shed, 1001ms))->retry_after(), 2s);
    EXPECT_EQ(answer_to(refusal(errc::unavailable, cenote::forever))->retry_after(), 60s);
    EXPECT_EQ(answer_to(refusal(errc::unavailable, -5s))->retry_after(), 1s);
}

TEST(service_answer, refuses_control_characters_in_the_content_type) {
    using namespace std::string_literals;
    for (const std::string& end : {"\r\n"s, "\n"s, "\r"s, "\0"s, "\x7f"s, "\t"s})
        EXPECT_THROW(answer(200, "", "text/html" + end + "Set-Cookie: a=b"), std::invalid_argument);
    EXPECT_EQ(answer(200, "", "text/html; charset=utf-8").content_type(),
              "text/html; charset=utf-8");
}

TEST(service_answer_to, is_empty_for_other_errors) {
    for (errc why : {errc::closed, errc::canceled, errc::open_failed, errc::deadlock})
        EXPECT_FALSE(answer_to(refusal(why))) << static_cast<int>(why);
    EXPECT_FALSE(answer_to(std::make_exception_ptr(std::runtime_error("mine"))));
    EXPECT_FALSE(answer_to(std::make_exception_ptr(7)));
    EXPECT_FALSE(answer_to(nullptr));
}

TEST(service_answer_to, is_the_answer_of_an_answer_error) {
    auto a = answer_to(std::make_exception_ptr(answer_error(409, "paid already")));
    ASSERT_TRUE(a);
    EXPECT_EQ(a->status(), 409);
    EXPECT_EQ(a->body(), "paid already");
    EXPECT_FALSE(a->retry_after());
}

TEST(service_answering, converts_refusals_to_answers) {
    cenote::pool<int> pool{[] { return 1; }, {.max = 1, .acquire_timeout = 0s}};
    auto work = [&] { return answer(200, std::to_string(*pool.acquire_for(5s))); };
    EXPECT_EQ(cenote::answering(work).status(), 200);
    auto held = pool.acquire_for(5s);
    auto impatient = [&] { return answer(200, std::to_string(*pool.acquire())); };
    answer a = cenote::answering(impatient);
    EXPECT_EQ(a.status(), 503);
    EXPECT_EQ(a.retry_after(), 1s);
    EXPECT_THROW(cenote::answering([]() -> answer { throw std::logic_error("a bug"); }),
                 std::logic_error);
}

TEST(service_health, is_ok_with_unused_pools) {
    service about;
    stats now;
    auto one = about.watch("one", [&] { return now; }, {});
    answer a = about.health();
    EXPECT_EQ(a.status(), 200);
    EXPECT_EQ(a.content_type(), "application/json");
    EXPECT_EQ(a.body(),
              R"({"status":"ok","draining":false,"pools":{"one":{"status":"ok","breaker":"active",)"
              R"("open":0,"minimum":0,"leased":0,"waiting":0}}})"
              "\n");
}

TEST(service_health, ignores_pools_that_are_not_vital) {
    service about;
    stats healthy;
    stats failing;
    failing.breaker = breaker_state::inactive;
    auto one = about.watch("one", [&] { return healthy; }, {});
    auto two = about.watch("two", [&] { return failing; }, {.vital = false});
    EXPECT_EQ(about.health().status(), 200);
    EXPECT_THAT(about.health().body(), HasSubstr(R"("two":{"status":"down")"));
    EXPECT_THAT(about.health().body(), HasSubstr(R"("vital":false)"));
}

TEST(service_watch, requires_only_the_first_of_several_pools) {
    cenote::pool<int> primary([] { return 1; }, {.name = "a", .min_size = 1});
    cenote::pool<int> replica([] { return 1; }, {.name = "b"});
    ASSERT_TRUE(primary.wait_ready(support::plenty));
    service about;
    auto both = about.watch_each("db", {primary.control(), replica.control()}, {.minimum = 1});
    replica.deactivate();
    EXPECT_EQ(about.ready().status(), 200) << about.ready().body();
    EXPECT_THAT(about.metrics_text().body(), HasSubstr(R"(pool="db-replica-1")"));
    primary.deactivate();
    EXPECT_EQ(about.ready().status(), 503);
    both = {};
    EXPECT_EQ(about.ready().status(), 200) << "no pool is left";
}

TEST(service_health, reports_each_pool) {
    service about;
    stats healthy;
    stats failing;
    failing.breaker = breaker_state::inactive;
    auto one = about.watch("one", [&] { return healthy; }, {});
    auto two = about.watch("two", [&] { return failing; }, {});
    answer a = about.health();
    EXPECT_EQ(a.status(), 503);
    EXPECT_THAT(a.body(), HasSubstr(R"("one":{"status":"ok")"));
    EXPECT_THAT(a.body(), HasSubstr(R"("two":{"status":"down",)"
                                    R"("reason":"circuit breaker inactive")"));
    failing.breaker = breaker_state::recovering;
    EXPECT_EQ(about.health().status(), 200) << "some acquires are allowed";
}

TEST(service_health, is_down_while_nothing_is_open_and_opens_fail) {
    service about;
    stats now;
    auto one = about.watch("one", [&] { return now; }, {});
    now.open_failed = 1;
    EXPECT_EQ(about.health().status(), 503);
    EXPECT_THAT(about.health().body(), HasSubstr(R"("reason":"opens fail")"));
    now.idle = 1;
    EXPECT_EQ(about.health().status(), 200) << "a resource is open";
    now.idle = 0;
    EXPECT_EQ(about.health().status(), 503);
    now.opened = 1;
    now.open_failed = 2;
    EXPECT_EQ(about.health().status(), 200) << "an open succeeded since";
    now.open_failed = 3;
    EXPECT_EQ(about.health().status(), 503);
}

TEST(service_health, is_down_while_a_pool_is_paused_or_closed) {
    cenote::pool<int> pool{[] { return 1; }};
    service about;
    auto one = about.watch("one", pool);
    EXPECT_EQ(about.health().status(), 200);
    pool.pause();
    EXPECT_EQ(about.health().status(), 503);
    EXPECT_THAT(about.health().body(), HasSubstr(R"("reason":"paused")"));
    pool.resume();
    EXPECT_EQ(about.ready().status(), 200);
    pool.close();
    EXPECT_EQ(about.ready().status(), 503);
    EXPECT_THAT(about.health().body(), HasSubstr(R"("reason":"closed")"));
}

TEST(service_ready, waits_for_the_minimum) {
    service about;
    stats now;
    auto one = about.watch("one", [&] { return now; }, {.minimum = 3});
    now.opening = 3;
    EXPECT_EQ(about.ready().status(), 503);
    EXPECT_EQ(about.health().status(), 200);
    now = {};
    now.leased = 1;
    now.idle = 1;
    now.resetting = 1;
    EXPECT_EQ(about.ready().status(), 200);
}

TEST(service_ready, is_down_after_announce_end) {
    service about;
    EXPECT_EQ(about.ready().status(), 200);
    about.announce_end();
    EXPECT_EQ(about.ready().status(), 503);
    EXPECT_THAT(about.ready().body(), HasSubstr(R"("draining":true)"));
    EXPECT_EQ(about.health().status(), 200);
}

TEST(service_ready, takes_no_lease_of_a_real_pool) {
    cenote::pool<int> pool{[] { return 1; }, {.max = 4, .min_size = 2}};
    service about;
    auto one = about.watch("one", pool, {.minimum = 2});
    EXPECT_TRUE(support::eventually([&] { return about.ready().status() == 200; }));
    EXPECT_EQ(about.health().status(), 200);
    pool.deactivate();
    EXPECT_EQ(about.health().status(), 503);
    EXPECT_EQ(about.ready().status(), 503);
    EXPECT_EQ(pool.stats().acquires, 0u);
}

TEST(service_health, notices_a_lost_server_and_its_return) {
    std::atomic<bool> away{true};
    cenote::pool<int> pool{[&]() -> int {
                               if (away) throw std::runtime_error("away");
                               return 1;
                           },
                           {.min_size = 1}};
    service about;
    auto one = about.watch("one", pool);
    EXPECT_TRUE(support::eventually([&] { return about.health().status() == 503; }));
    away = false;
    EXPECT_TRUE(support::eventually([&] { return about.health().status() == 200; }));
}

TEST(service_watch, includes_a_pool_until_its_entry_ends) {
    service about;
    {
        auto one = about.watch("one", [] { return stats{}; }, {});
        EXPECT_THAT(about.metrics_text().body(), HasSubstr("pool=\"one\""));
        {
            auto same = about.watch("one", [] { return stats{}; }, {});
            EXPECT_THAT(about.metrics_text().body(), HasSubstr("pool=\"one 2\""));
            EXPECT_THAT(about.health().body(), HasSubstr("\"one 2\""));
        }
        EXPECT_THAT(about.health().body(), Not(HasSubstr("\"one 2\"")));
        EXPECT_THAT(about.health().body(), HasSubstr("one"));
        auto moved = std::move(one);
        EXPECT_THAT(about.health().body(), HasSubstr("one"));
    }
    EXPECT_THAT(about.health().body(), Not(HasSubstr("one")));
    EXPECT_THAT(about.metrics_text().body(), Not(HasSubstr("pool=\"one\"")));
    EXPECT_THROW(static_cast<void>(about.watch("a\"b", [] { return stats{}; }, {})),
                 std::invalid_argument);
    service::entry outlives;
    {
        service other;
        outlives = other.watch("two", [] { return stats{}; }, {});
    }
}

/// Requests a report when destroyed, which would deadlock if a mutex were locked.
struct reporting_reader {
    stats operator()() const { return {}; }
    reporting_reader(service* of, int* status) : about(of), heard(status) {}
    reporting_reader(const reporting_reader&) = default;
    reporting_reader& operator=(const reporting_reader&) = delete;
    ~reporting_reader() {
        if (*heard != 0) *heard = about->health().status();
    }

    service* about;
    int* heard;  // 0: not yet
};

TEST(service_watch, destroys_functions_of_the_user_without_a_lock) {
    service about;
    int heard = 0;
    auto entry = about.watch("one", reporting_reader(&about, &heard), {});
    heard = 1;
    entry = {};
    EXPECT_EQ(heard, 200);
}

TEST(service_answer_to_path, knows_three_paths) {
    service about;
    EXPECT_EQ(about.answer_to("/metrics")->content_type(), cenote::metrics::content_type);
    EXPECT_TRUE(about.answer_to("/health"));
    EXPECT_TRUE(about.answer_to("/ready"));
    for (const char* other : {"", "/", "/metrics/", "/health/..", "/HEALTH", "health"})
        EXPECT_FALSE(about.answer_to(other)) << other;
}

}  // namespace

// What a service says: about refusals, and about how its pools are.
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

TEST(service_answer_to, says_503_and_when_to_come_again_where_a_pool_is_exhausted) {
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

TEST(service_answer, has_no_type_that_ends_its_field) {
    using namespace std::string_literals;
    for (const std::string& end : {"\r\n"s, "\n"s, "\r"s, "\0"s, "\x7f"s, "\t"s})
        EXPECT_THROW(answer(200, "", "text/html" + end + "Set-Cookie: a=b"), std::invalid_argument);
    EXPECT_EQ(answer(200, "", "text/html; charset=utf-8").content_type(),
              "text/html; charset=utf-8");
}

TEST(service_answer_to, leaves_everything_else_alone) {
    for (errc why : {errc::closed, errc::canceled, errc::open_failed, errc::deadlock})
        EXPECT_FALSE(answer_to(refusal(why))) << static_cast<int>(why);
    EXPECT_FALSE(answer_to(std::make_exception_ptr(std::runtime_error("mine"))));
    EXPECT_FALSE(answer_to(std::make_exception_ptr(7)));
    EXPECT_FALSE(answer_to(nullptr));
}

TEST(service_answer_to, passes_on_what_was_thrown_as_an_answer) {
    auto a = answer_to(std::make_exception_ptr(answer_error(409, "paid already")));
    ASSERT_TRUE(a);
    EXPECT_EQ(a->status(), 409);
    EXPECT_EQ(a->body(), "paid already");
    EXPECT_FALSE(a->retry_after());
}

TEST(service_answering, answers_for_work_that_is_refused) {
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

TEST(service_health, is_well_with_pools_that_have_done_nothing_yet) {
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

TEST(service_health, does_not_depend_on_what_is_not_vital) {
    service about;
    stats well;
    stats ill;
    ill.breaker = breaker_state::inactive;
    auto one = about.watch("one", [&] { return well; }, {});
    auto two = about.watch("two", [&] { return ill; }, {.vital = false});
    EXPECT_EQ(about.health().status(), 200);
    EXPECT_THAT(about.health().body(), HasSubstr(R"("two":{"status":"down")"));
    EXPECT_THAT(about.health().body(), HasSubstr(R"("vital":false)"));
}

TEST(service_watch, takes_the_first_of_several_pools_for_the_one_that_counts) {
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
    EXPECT_EQ(about.ready().status(), 200) << "nobody is watched any more";
}

TEST(service_health, tells_of_each_pool) {
    service about;
    stats well;
    stats ill;
    ill.breaker = breaker_state::inactive;
    auto one = about.watch("one", [&] { return well; }, {});
    auto two = about.watch("two", [&] { return ill; }, {});
    answer a = about.health();
    EXPECT_EQ(a.status(), 503);
    EXPECT_THAT(a.body(), HasSubstr(R"("one":{"status":"ok")"));
    EXPECT_THAT(a.body(), HasSubstr(R"("two":{"status":"down",)"
                                    R"("reason":"its circuit breaker is inactive")"));
    ill.breaker = breaker_state::recovering;
    EXPECT_EQ(about.health().status(), 200) << "it lets some through";
}

TEST(service_health, is_ill_while_nothing_is_open_and_opens_fail) {
    service about;
    stats now;
    auto one = about.watch("one", [&] { return now; }, {});
    now.open_failed = 1;
    EXPECT_EQ(about.health().status(), 503);
    EXPECT_THAT(about.health().body(), HasSubstr("it cannot be opened"));
    now.idle = 1;
    EXPECT_EQ(about.health().status(), 200) << "something is open after all";
    now.idle = 0;
    EXPECT_EQ(about.health().status(), 503);
    now.opened = 1;
    now.open_failed = 2;
    EXPECT_EQ(about.health().status(), 200) << "one open went well meanwhile";
    now.open_failed = 3;
    EXPECT_EQ(about.health().status(), 503);
}

TEST(service_health, is_ill_while_a_pool_lends_nothing) {
    cenote::pool<int> pool{[] { return 1; }};
    service about;
    auto one = about.watch("one", pool);
    EXPECT_EQ(about.health().status(), 200);
    pool.pause();
    EXPECT_EQ(about.health().status(), 503);
    EXPECT_THAT(about.health().body(), HasSubstr("it is paused"));
    pool.resume();
    EXPECT_EQ(about.ready().status(), 200);
    pool.close();
    EXPECT_EQ(about.ready().status(), 503);
    EXPECT_THAT(about.health().body(), HasSubstr("it is closed"));
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

TEST(service_ready, is_not_while_it_drains) {
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

TEST(service_health, finds_a_server_that_is_away_and_its_return) {
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

TEST(service_watch, ends_with_its_entry_and_is_in_the_metrics_until_then) {
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

/// Asks once more at its end, which would wait for ever for a lock that is held.
struct curious {
    stats operator()() const { return {}; }
    curious(service* of, int* status) : about(of), heard(status) {}
    curious(const curious&) = default;
    curious& operator=(const curious&) = delete;
    ~curious() {
        if (*heard != 0) *heard = about->health().status();
    }

    service* about;
    int* heard;  // 0: not yet
};

TEST(service_watch, lets_go_of_what_it_was_given_under_no_lock) {
    service about;
    int heard = 0;
    auto entry = about.watch("one", curious(&about, &heard), {});
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

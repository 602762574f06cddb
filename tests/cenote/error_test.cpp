// Tests error codes, their category, the exception of each code, and the texts.
#include "cenote/error.hpp"

#include <future>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/server.hpp"

using namespace std::chrono_literals;
using cenote::errc;
using support::connector;
using support::plenty;
using support::server;
using support::session;
using testing::ContainsRegex;
using testing::HasSubstr;

namespace {

constexpr errc every_code[] = {errc::timed_out, errc::closed,   errc::unavailable, errc::line_full,
                               errc::shed,      errc::canceled, errc::open_failed, errc::deadlock};

template <class F>
std::string text_of(F&& fails) {
    try {
        fails();
    } catch (const cenote::pool_error& e) {
        return e.what();
    }
    return "nothing was thrown";
}

}  // namespace

TEST(error, every_code_has_its_own_text_in_the_category_cenote) {
    EXPECT_STREQ(cenote::pool_category().name(), "cenote");
    std::set<std::string> texts;
    for (errc code : every_code) {
        std::error_code error = code;
        EXPECT_EQ(&error.category(), &cenote::pool_category());
        EXPECT_TRUE(error);
        EXPECT_FALSE(error.message().empty());
        texts.insert(error.message());
    }
    EXPECT_EQ(texts.size(), cenote::errc_count);
    EXPECT_FALSE(cenote::pool_category().message(12345).empty());
}

TEST(error, codes_match_the_standard_conditions_of_the_same_meaning) {
    EXPECT_EQ(std::error_code(errc::timed_out), std::errc::timed_out);
    EXPECT_EQ(std::error_code(errc::canceled), std::errc::operation_canceled);
    EXPECT_NE(std::error_code(errc::closed), std::errc::timed_out);
}

TEST(error, every_code_throws_its_own_type) {
    auto fail = [](errc code) { cenote::throw_pool_error(code, "text", nullptr); };
    EXPECT_THROW(fail(errc::timed_out), cenote::timed_out_error);
    EXPECT_THROW(fail(errc::closed), cenote::closed_error);
    EXPECT_THROW(fail(errc::unavailable), cenote::unavailable_error);
    EXPECT_THROW(fail(errc::line_full), cenote::line_full_error);
    EXPECT_THROW(fail(errc::shed), cenote::shed_error);
    EXPECT_THROW(fail(errc::canceled), cenote::canceled_error);
    EXPECT_THROW(fail(errc::open_failed), cenote::open_failed_error);
    EXPECT_THROW(fail(errc::deadlock), cenote::deadlock_error);
    for (errc code : every_code) {
        try {
            fail(code);
        } catch (const std::system_error& e) {
            EXPECT_EQ(e.code(), code);
            EXPECT_STREQ(e.what(), "text");
        }
    }
}

TEST(error, an_exception_carries_its_cause_and_copies_without_throwing) {
    auto cause = std::make_exception_ptr(42);
    cenote::timed_out_error one("text", cause);
    EXPECT_EQ(one.cause(), cause);
    cenote::timed_out_error two = one;  // NOLINT: the copy is the test
    EXPECT_EQ(two.cause(), cause);
    EXPECT_STREQ(two.what(), "text");
    static_assert(std::is_nothrow_copy_constructible_v<cenote::timed_out_error>);
}

TEST(error, has_the_name_and_the_stats_of_the_pool) {
    cenote::pool<session> pool{connector{server::start()}, {.name = "orders", .max = 1}};
    auto lease = pool.acquire();
    try {
        (void)pool.acquire_for(0ns);
        FAIL() << "all are leased";
    } catch (const cenote::pool_error& e) {
        lease.give_back();  // the stats in the error do not change
        EXPECT_EQ(e.pool(), "orders");
        EXPECT_EQ(e.stats().leased, 1U);
        EXPECT_EQ(e.stats().max, 1U);
        EXPECT_EQ(e.stats().refused(errc::timed_out), 1U);
    }
    cenote::timed_out_error of_no_pool("text");
    EXPECT_EQ(of_no_pool.pool(), "");
    EXPECT_EQ(of_no_pool.stats().max, 0U);
}

TEST(error, a_timeout_lists_call_sites_of_leases_and_counts_waiters) {
    cenote::pool<session> pool{connector{server::start()}, {.name = "orders", .max = 2}};
    auto one = pool.acquire();
    auto two = pool.acquire();
    unsigned line = __LINE__ - 1;
    auto waiter = std::async(std::launch::async, [&] {
        std::error_code error;
        (void)pool.acquire({.timeout = plenty}, error);
    });
    EXPECT_TRUE(support::lines_up(pool, 1));
    std::string text = text_of([&] { (void)pool.acquire_for(20ms); });
    EXPECT_THAT(text, HasSubstr("timed out"));
    EXPECT_THAT(text, HasSubstr("\"orders\""));
    EXPECT_THAT(text, HasSubstr("2 of 2 leased"));
    EXPECT_THAT(text, HasSubstr("error_test.cpp:" + std::to_string(line)));
    EXPECT_THAT(text, HasSubstr("error_test.cpp:" + std::to_string(line - 1)));
    EXPECT_THAT(text, ContainsRegex("holds 1"));
    EXPECT_THAT(text, HasSubstr("oldest"));
    EXPECT_THAT(text, ContainsRegex("[12] waiting"));
    EXPECT_THAT(text, ContainsRegex("last open .*ok"));
    one.give_back();
    waiter.get();
}

TEST(error, a_timeout_counts_the_leases_of_one_call_site_together) {
    cenote::pool<session> pool{connector{server::start()}, {.max = 3}};
    std::vector<cenote::lease<session>> leases;
    for (int i = 0; i < 3; ++i) leases.push_back(pool.acquire());
    std::string text = text_of([&] { (void)pool.acquire_for(1ms); });
    EXPECT_THAT(text, ContainsRegex("error_test.cpp:[0-9]+ holds 3"));
}

TEST(error, a_timeout_names_the_call_site_of_a_reused_resource) {
    cenote::pool<session> pool{connector{server::start()}, {.max = 1}};
    for (int i = 0; i < 3; ++i) (void)pool.acquire();
    auto lease = pool.acquire();
    unsigned line = __LINE__ - 1;
    std::string text = text_of([&] { (void)pool.acquire_for(1ms); });
    EXPECT_THAT(text, HasSubstr("error_test.cpp:" + std::to_string(line)));
}

TEST(error, a_timeout_says_why_the_last_open_failed) {
    support::stopped_clock time;
    auto to = server::start();
    to->on_open = [](int) { throw support::refused_by_server("no route to db"); };
    cenote::pool<session> pool{connector{to}};
    auto times_out = [&](cenote::pool<session>& of) {
        auto waiter = std::async(std::launch::async,
                                 [&] { return text_of([&] { (void)of.acquire_for(200ms); }); });
        EXPECT_TRUE(support::lines_up(of, 1));
        EXPECT_TRUE(support::eventually([&] { return of.stats().open_failed > 0; }));
        time.advance(200ms);
        return waiter.get();
    };
    std::string text = times_out(pool);
    EXPECT_THAT(text, HasSubstr("0 of 10 leased"));
    EXPECT_THAT(text, HasSubstr("no route to db"));
    to->on_open = [](int) { throw 42; };
    cenote::pool<session> other{connector{to}};
    EXPECT_THAT(times_out(other), ContainsRegex("last open.*exception"));
}

TEST(error, the_cause_is_null_after_a_successful_open) {
    auto to = server::start();
    to->on_open = [](int id) {
        if (id == 1) throw support::refused_by_server("once");
    };
    cenote::pool<session> pool{connector{to}, {.max = 1}};
    auto lease = pool.acquire_for(plenty);
    try {
        (void)pool.acquire_for(1ms);
        FAIL();
    } catch (const cenote::timed_out_error& e) {
        EXPECT_EQ(e.cause(), nullptr);
    }
}

TEST(error, every_refusal_names_the_pool) {
    cenote::pool<session> pool{connector{server::start()},
                               {.name = "orders", .max = 1, .line_max = 1}};
    auto lease = pool.acquire();
    std::stop_source stop;
    auto waiter = std::async(std::launch::async, [&] {
        std::stop_token token = stop.get_token();
        return text_of([&] { (void)pool.acquire({.timeout = plenty, .stop = token}); });
    });
    EXPECT_TRUE(support::lines_up(pool, 1));
    std::string full = text_of([&] { (void)pool.acquire(); });
    EXPECT_THAT(full, HasSubstr("orders"));
    EXPECT_THAT(full, HasSubstr("line_max"));
    stop.request_stop();
    EXPECT_THAT(waiter.get(), HasSubstr("orders"));
    pool.close();
    EXPECT_THAT(text_of([&] { (void)pool.acquire(); }), HasSubstr("orders"));
}

// Why the last calls of the connector failed.
#include "shell/open_log.hpp"

#include <chrono>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

using namespace std::chrono_literals;
using cenote::core::instant;
using cenote::core::long_ago;
using cenote::shell::open_log;

namespace {

constexpr instant now{1h};

std::exception_ptr failure() { return std::make_exception_ptr(std::runtime_error("no route")); }

TEST(open_log, begins_without_an_open) {
    open_log log;
    EXPECT_EQ(log.error(), nullptr);
    EXPECT_EQ(log.first_error(), nullptr);
    EXPECT_EQ(log.ended_at(), long_ago);
}

TEST(open_log, has_the_error_of_the_last_open_and_of_the_first_that_failed) {
    open_log log;
    std::exception_ptr first = failure();
    std::exception_ptr second = failure();
    log.record(now, nullptr);
    log.record(now + 1s, first);
    log.record(now + 2s, second);
    EXPECT_EQ(log.error(), second);
    EXPECT_EQ(log.ended_at(), now + 2s);
    log.record(now + 3s, nullptr);
    EXPECT_EQ(log.error(), nullptr) << "the last open succeeded";
    EXPECT_EQ(log.first_error(), first);
}

/// Counts its copies that are left.
struct counted {
    explicit counted(int& count) : count_(count) { ++count_; }
    counted(const counted& other) : count_(other.count_) { ++count_; }
    ~counted() { --count_; }
    counted& operator=(const counted&) = delete;

    int& count_;
};

TEST(open_log, keeps_a_replaced_exception_until_it_is_taken) {
    open_log log;
    int alive = 0;
    log.record(now, failure());  // stays as the first one
    log.record(now, std::make_exception_ptr(counted(alive)));
    (void)log.take_replaced();
    log.record(now, nullptr);
    EXPECT_EQ(alive, 1) << "it must not end under the lock";
    std::exception_ptr taken = log.take_replaced();
    EXPECT_EQ(log.take_replaced(), nullptr);
    EXPECT_EQ(alive, 1);
    taken = nullptr;
    EXPECT_EQ(alive, 0);
}

TEST(open_log, tells_the_cause_while_the_machine_is_told_of_the_failure) {
    open_log log;
    std::exception_ptr why = failure();
    log.begin_answer(why, 7);
    EXPECT_EQ(log.cause_of(7), why);
    EXPECT_EQ(log.cause_of(8), nullptr) << "another resource";
    log.end_answer();
    EXPECT_EQ(log.cause_of(7), nullptr);
}

TEST(open_log, names_the_timeout_of_an_abandoned_call) {
    open_log log;
    for (bool opens : {true, false}) {
        try {
            std::rethrow_exception(log.timed_out(opens));
        } catch (const std::system_error& e) {
            EXPECT_EQ(e.code(), std::errc::timed_out);
            std::string verb = opens ? "open_timeout" : "close_timeout";
            EXPECT_NE(std::string(e.what()).find(verb), std::string::npos) << e.what();
        }
    }
}

TEST(open_log, forgets_the_last_open_in_the_child_of_a_fork) {
    open_log log;
    std::exception_ptr why = failure();
    log.record(now, why);
    log.restart();
    EXPECT_EQ(log.error(), nullptr);
    EXPECT_EQ(log.ended_at(), long_ago);
    EXPECT_EQ(log.take_replaced(), why);
}

}  // namespace

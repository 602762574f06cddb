// Units of work on an executor: hooks that are coroutines undo what a user left.
#include "cenote/asio_unit_of_work.hpp"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/testing.hpp"
#include "support/recorder.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using asio::awaitable;
using asio::use_awaitable;
using cenote::async_unit_hooks;
using cenote::async_unit_of_work;
using support::recorder;
using testing::ElementsAre;
using enum cenote::event_kind;

namespace {

using notes = std::vector<std::string>;

/// Somewhere in between, so that a hook does not end where it began.
awaitable<void> another_turn() {
    auto where = co_await asio::this_coro::executor;
    co_await asio::post(where, use_awaitable);
}

/// Has members that are awaited, as the session of an asynchronous ORM.
struct session {
    awaitable<void> rollback() {
        co_await another_turn();
        said->push_back("rollback");
        in_transaction = false;
    }
    awaitable<bool> clear() {
        co_await another_turn();
        said->push_back("clear");
        user.clear();
        co_return true;
    }
    bool broken() const { return lost; }

    int id = 0;
    notes* said = nullptr;
    std::string user{};
    bool in_transaction = false;
    bool lost = false;
};

struct plain {
    int id = 0;
    std::string user{};
};

struct units_on_an_executor : testing::Test {
    asio::io_context io;
    std::shared_ptr<cenote::manual_clock> clock = std::make_shared<cenote::manual_clock>();
    std::shared_ptr<recorder> events = std::make_shared<recorder>();
    notes said;
    int made = 0;

    auto make() {
        return [this]() -> awaitable<session> {
            co_await another_turn();
            co_return session{.id = ++made, .said = &said};
        };
    }
    cenote::options single() {
        return {.max = 1, .reset_timeout = 1s, .observers = {events}, .clock = clock};
    }
    void settle() {
        io.restart();
        io.poll();
    }
    template <class T>
    cenote::lease<T> acquire(cenote::pool<T>& from) {
        cenote::lease<T> got;
        auto keep = [&](const boost::system::error_code&, cenote::lease<T> held) {
            got = std::move(held);
        };
        from.async_acquire(asio::bind_executor(io, keep));
        settle();
        return got;
    }
};

}  // namespace

TEST_F(units_on_an_executor, no_user_finds_what_another_one_left) {
    cenote::pool<session> units{io, async_unit_of_work<session>{make()}, single()};
    auto ann = acquire(units);
    ASSERT_TRUE(ann);
    ann->user = "ann";
    ann->in_transaction = true;
    ann.give_back();
    EXPECT_FALSE(units.try_acquire());
    settle();
    EXPECT_THAT(said, ElementsAre("rollback", "clear"));
    auto bob = units.try_acquire();
    ASSERT_TRUE(bob);
    EXPECT_EQ(bob->id, 1);
    EXPECT_TRUE(bob->user.empty());
    EXPECT_FALSE(bob->in_transaction);
}

TEST_F(units_on_an_executor, a_broken_unit_is_not_kept) {
    cenote::pool<session> units{io, async_unit_of_work<session>{make()}, single()};
    auto ann = acquire(units);
    ann->lost = true;
    ann.give_back();
    auto bob = acquire(units);
    ASSERT_TRUE(bob);
    EXPECT_EQ(bob->id, 2);
    EXPECT_TRUE(said.empty());
}

TEST_F(units_on_an_executor, hooks_may_be_awaited_or_answer_at_once) {
    bool cleared = false;
    int probes = 0;
    async_unit_hooks<plain> hooks{.rollback = [](plain&) { return true; },
                                  .clear = [&](plain& p) -> awaitable<void> {
                                      co_await another_turn();
                                      p.user.clear();
                                      cleared = true;
                                  },
                                  .probe = [&](plain&) -> awaitable<bool> {
                                      ++probes;
                                      co_return true;
                                  }};
    auto open = [this]() -> awaitable<plain> { co_return plain{.id = ++made}; };
    cenote::options settings = single();
    settings.probe_after_idle = 5s;
    cenote::pool<plain> units{io, async_unit_of_work<plain>{open, std::move(hooks)}, settings};
    auto ann = acquire(units);
    ann->user = "ann";
    ann.give_back();
    settle();
    EXPECT_TRUE(cleared);
    EXPECT_EQ(probes, 0);
    clock->advance(5s);
    auto bob = acquire(units);
    ASSERT_TRUE(bob);
    EXPECT_EQ(probes, 1);
    EXPECT_TRUE(bob->user.empty());
    EXPECT_EQ(bob->id, 1);
}

TEST_F(units_on_an_executor, what_cannot_be_undone_is_not_lent_again) {
    enum class way { says_no, throws, throws_at_once };
    for (way goes : {way::says_no, way::throws, way::throws_at_once}) {
        async_unit_hooks<session> hooks;
        if (goes == way::says_no)
            hooks.rollback = [](session&) -> awaitable<bool> { co_return false; };
        if (goes == way::throws)
            hooks.rollback = [](session&) -> awaitable<void> {
                co_await another_turn();
                throw std::runtime_error("lost");
            };
        if (goes == way::throws_at_once)
            hooks.rollback = [](session&) -> bool { throw std::runtime_error("lost"); };
        made = 0;
        events = std::make_shared<recorder>();
        cenote::pool<session> units{io, async_unit_of_work<session>{make(), std::move(hooks)},
                                    single()};
        acquire(units).give_back();
        auto next = acquire(units);
        ASSERT_TRUE(next);
        EXPECT_EQ(next->id, 2);
        EXPECT_EQ(events->count(reset_failed), 1U);
    }
}

TEST_F(units_on_an_executor, a_hook_that_takes_too_long_is_canceled) {
    bool ended = false;
    async_unit_hooks<session> hooks{.clear = [&](session&) -> awaitable<void> {
        struct note {
            bool& at;
            ~note() { at = true; }
        } at_the_end{ended};
        asio::steady_timer never(co_await asio::this_coro::executor, 1h);
        co_await never.async_wait(use_awaitable);
    }};
    cenote::pool<session> units{io, async_unit_of_work<session>{make(), std::move(hooks)},
                                single()};
    acquire(units).give_back();
    settle();
    EXPECT_FALSE(ended);
    clock->advance(1s);
    settle();
    EXPECT_TRUE(ended);
    auto next = acquire(units);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->id, 2);
}

TEST_F(units_on_an_executor, nothing_to_undo_is_refused) {
    auto open = []() -> awaitable<plain> { co_return plain{}; };
    EXPECT_THROW((async_unit_of_work<plain>{open}), cenote::invalid_option);
    EXPECT_THROW((async_unit_of_work<session>{nullptr}), cenote::invalid_option);
}

TEST_F(units_on_an_executor, exceptions_of_users_keep_a_unit_that_is_not_broken) {
    cenote::pool<session> units{io, async_unit_of_work<session>{make()}, single()};
    auto ann = acquire(units);
    ann.give_back(std::make_exception_ptr(std::runtime_error("constraint")),
                  cenote::verdict::discard);
    auto bob = acquire(units);
    ASSERT_TRUE(bob);
    EXPECT_EQ(bob->id, 1);
}

// Request scopes: acquired on first use, always released, classified as by pool::with.
#include "cenote/request_scope.hpp"

#include <array>
#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/asio_request_scope.hpp"
#include "cenote/server_error.hpp"
#include "support/patience.hpp"
#include "support/task.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using cenote::request_scope;
using cenote::with_scope;

struct session {
    int number = 0;
};

/// Opens numbered sessions, and classifies one exception as discard.
struct judge {
    std::atomic<int>* made;
    session open() const { return {++*made}; }
    cenote::verdict classify(const std::exception_ptr& error) const {
        try {
            std::rethrow_exception(error);
        } catch (const std::length_error&) {
            return cenote::verdict::discard;
        } catch (...) {
            return cenote::verdict::keep;
        }
    }
};

class request_scope_of : public testing::Test {
protected:
    asio::io_context io_;  // first: the pool posts to it
    std::atomic<int> made_{0};
    cenote::pool<session> plain_{[this] { return session{++made_}; }, {.max = 2}};
};

TEST_F(request_scope_of, acquires_nothing_if_unused) {
    with_scope(plain_, [](request_scope<session>& s) { EXPECT_FALSE(s.has_resource()); });
    EXPECT_EQ(plain_.stats().acquires, 0u);
    EXPECT_EQ(plain_.stats().opened, 0u);
}

TEST_F(request_scope_of, keeps_one_resource_until_the_end) {
    int number = with_scope(plain_, [this](request_scope<session>& s) {
        session& first = s.get();
        EXPECT_EQ(&first, &s.get());
        EXPECT_TRUE(s.has_resource());
        EXPECT_EQ(plain_.stats().leased, 1u);
        return first.number;
    });
    EXPECT_EQ(number, 1);
    EXPECT_EQ(plain_.stats().acquires, 1u);
    EXPECT_TRUE(support::eventually([&] { return plain_.stats().leased == 0; }));
}

/// How many resources are discarded if a function throws in pool::with, in with_scope and in
/// async_with_scope.
template <class Error>
std::array<std::uint64_t, 3> discarded_by(cenote::pool<session>& pool, asio::io_context& io,
                                          const Error& error) {
    auto count = [&, before = std::uint64_t{0}]() mutable {
        std::uint64_t now = pool.stats().discarded;
        return now - std::exchange(before, now);
    };
    count();
    EXPECT_THROW(pool.with([&](session&) { throw error; }), Error);
    std::uint64_t by_with = count();
    auto throws = [&](request_scope<session>& s) {
        s.get();
        throw error;
    };
    EXPECT_THROW(with_scope(pool, throws), Error);
    std::uint64_t by_scope = count();
    auto awaits = [&](request_scope<session>& s) -> asio::awaitable<void> {
        co_await s.async_get(asio::use_awaitable);
        throw error;
    };
    auto failed = asio::co_spawn(io, cenote::async_with_scope(pool, awaits), asio::use_future);
    io.restart();
    io.run();
    EXPECT_THROW(failed.get(), Error);
    return {by_with, by_scope, count()};
}

TEST_F(request_scope_of, classifies_exceptions_like_with) {
    using each = std::array<std::uint64_t, 3>;
    constexpr each discards{1, 1, 1};
    constexpr each keeps{0, 0, 0};
    EXPECT_EQ(discarded_by(plain_, io_, std::runtime_error("of any library")), discards);
    EXPECT_EQ(discarded_by(plain_, io_, cenote::statement_error("no such table")), discards);
    EXPECT_EQ(
        discarded_by(plain_, io_, cenote::connection_error(cenote::error_kind::connection, "lost")),
        discards);
    EXPECT_EQ(discarded_by(plain_, io_, cenote::timed_out_error("of another pool")), discards);
    std::atomic<int> made{0};
    cenote::pool<session> judged{judge{&made}, {.max = 2}};
    EXPECT_EQ(discarded_by(judged, io_, std::runtime_error("kept")), keeps);
    EXPECT_EQ(discarded_by(judged, io_, std::length_error("discarded")), discards);
}

TEST_F(request_scope_of, an_exception_before_the_first_use_discards_nothing) {
    EXPECT_THROW(
        with_scope(plain_, [](request_scope<session>&) { throw std::runtime_error("early"); }),
        std::runtime_error);
    EXPECT_EQ(made_, 0);
}

TEST_F(request_scope_of, failed_accepts_a_verdict) {
    request_scope<session> scope(plain_);
    scope.get();
    scope.failed(std::make_exception_ptr(std::runtime_error("not found")), cenote::verdict::keep);
    EXPECT_FALSE(scope.has_resource());
    EXPECT_EQ(plain_.stats().discarded, 0u);
}

TEST_F(request_scope_of, failed_without_an_error_releases) {
    request_scope<session> scope(plain_);
    scope.get();
    scope.failed(nullptr);
    EXPECT_FALSE(scope.has_resource());
    EXPECT_EQ(plain_.stats().discarded, 0u);
}

TEST_F(request_scope_of, the_classify_of_the_connector_decides) {
    std::atomic<int> made{0};
    cenote::pool<session> pool{judge{&made}, {.max = 1}};
    auto fail_with = [&](auto error) {
        EXPECT_ANY_THROW(with_scope(pool, [&](request_scope<session>& s) {
            s.get();
            throw error;
        }));
    };
    fail_with(std::runtime_error("kept"));
    EXPECT_EQ(pool.stats().discarded, 0u);
    fail_with(std::length_error("discarded"));
    EXPECT_EQ(pool.stats().discarded, 1u);
    EXPECT_EQ(pool.acquire()->number, 2);
}

TEST_F(request_scope_of, acquires_again_after_give_back) {
    request_scope<session> s(plain_);
    s.get();
    s.give_back();
    EXPECT_FALSE(s.has_resource());
    EXPECT_EQ(s.get().number, 1);
    request_scope<session> moved = std::move(s);
    EXPECT_TRUE(moved.has_resource());
    EXPECT_FALSE(s.has_resource());  // NOLINT(bugprone-use-after-move): it says so
}

TEST_F(request_scope_of, discard_at_end_leaves_the_resource_usable) {
    {
        request_scope<session> s(plain_);
        EXPECT_EQ(s.get().number, 1);
        s.discard_at_end();
        s.mark_dirty();
        EXPECT_EQ(s.get().number, 1);
        EXPECT_EQ(plain_.stats().leased, 1u);
        EXPECT_EQ(plain_.stats().discarded, 0u);
    }
    EXPECT_EQ(plain_.stats().discarded, 1u);
    {
        request_scope<session> s(plain_);
        s.discard_at_end();  // before there is anything
        EXPECT_EQ(s.get().number, 2);
        s.give_back();
        EXPECT_EQ(plain_.stats().discarded, 2u);
        EXPECT_EQ(s.get().number, 3) << "after any verdict";
        s.failed(std::make_exception_ptr(std::logic_error("mine")));
    }
    EXPECT_EQ(plain_.stats().discarded, 3u);
    EXPECT_EQ(plain_.acquire()->number, 4);
}

TEST_F(request_scope_of, discard_at_end_applies_to_awaited_resources) {
    auto use = [this]() -> asio::awaitable<void> {
        request_scope<session> s(plain_);
        s.discard_at_end();
        session* got = co_await s.async_get(asio::use_awaitable);
        EXPECT_EQ(got, &s.get());
    };
    asio::co_spawn(io_, use(), asio::detached);
    io_.run();
    EXPECT_EQ(plain_.stats().discarded, 1u);
}

TEST_F(request_scope_of, throws_like_acquire) {
    auto one = plain_.acquire();
    auto two = plain_.acquire();
    cenote::acquire_options how{.timeout = 1ms};
    EXPECT_THROW(
        with_scope(plain_, [](request_scope<session>& s) { s.get(); }, how), cenote::pool_error);
}

asio::awaitable<int> twice(cenote::pool<session>* from) {
    auto work = [](request_scope<session>& s) -> asio::awaitable<int> {
        session* first = co_await s.async_get(asio::use_awaitable);
        session* second = co_await s.async_get(asio::use_awaitable);
        co_return first == second ? first->number : -1;
    };
    co_return co_await cenote::async_with_scope(*from, work);
}

asio::awaitable<void> lost(cenote::pool<session>* from) {
    auto work = [](request_scope<session>& s) -> asio::awaitable<void> {
        co_await s.async_get(asio::use_awaitable);
        throw cenote::connection_error(cenote::error_kind::connection, "lost");
    };
    co_await cenote::async_with_scope(*from, work);
}

TEST_F(request_scope_of, is_awaited_by_coroutines_of_asio) {
    auto got = asio::co_spawn(io_, twice(&plain_), asio::use_future);
    auto failed = asio::co_spawn(io_, lost(&plain_), asio::use_future);
    io_.run();
    EXPECT_GE(got.get(), 1);
    EXPECT_THROW(failed.get(), cenote::connection_error);
    EXPECT_EQ(plain_.stats().acquires, 2u);
    EXPECT_EQ(plain_.stats().leased, 0u);
    EXPECT_EQ(plain_.stats().discarded, 1u);
}

TEST_F(request_scope_of, completes_handlers_of_asio) {
    request_scope<session> s(plain_);
    int number = 0;
    s.async_get(asio::bind_executor(io_, [&](const std::exception_ptr& error, session* got) {
        if (error == nullptr) number = got->number;
    }));
    io_.run();
    EXPECT_EQ(number, 1);
    EXPECT_TRUE(s.has_resource());
}

support::task await_twice(cenote::pool<session>& from, int& number) {
    request_scope<session> s(from);
    session& first = co_await s.co_get();
    session& second = co_await s.co_get();
    number = &first == &second ? first.number : -1;
}

TEST_F(request_scope_of, is_awaited_by_other_coroutines) {
    auto one = plain_.acquire();
    auto other = plain_.acquire();
    int free = one->number;
    int number = 0;
    auto running = await_twice(plain_, number);
    running.start();
    EXPECT_FALSE(running.done());
    one.give_back();  // and so it is resumed, on this thread
    EXPECT_TRUE(running.done());
    EXPECT_EQ(number, free);
    EXPECT_EQ(plain_.stats().leased, 1u);
    EXPECT_EQ(plain_.stats().acquires, 3u);
}

}  // namespace

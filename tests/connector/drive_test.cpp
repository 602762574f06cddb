// Steps with both ways to wait: they continue when their socket is ready, end in time, and can be
// canceled.
#include "connector/drive.hpp"

#include <array>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/server_error.hpp"
#include "connector/awaiting.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"

namespace cenote::connector_detail {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using support::await;
using support::eventually;

// Boost.Asio counts the references to a strand with fences, which the thread sanitizer does not
// understand: it reports a race when two threads release a strand.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CENOTE_TEST_ONE_THREAD 1
#endif
#endif
#ifdef CENOTE_TEST_ONE_THREAD
constexpr int loop_threads = 1;
#else
constexpr int loop_threads = 3;
#endif

struct wire {
    wire() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0); }
    ~wire() {
        for (int end : ends) ::close(end);
    }
    wire(const wire&) = delete;
    wire& operator=(const wire&) = delete;

    void say(const std::string& text) const {
        EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    }

    std::array<int, 2> ends{};
};

/// Reads a number of bytes.
struct reading final : steps {
    reading(int from, std::size_t many, need what = need::to_read)
        : descriptor_(from), missing(many), wants(what) {}

    need step() override {
        ++calls;
        while (missing > 0) {
            char c = 0;
            if (::read(descriptor_, &c, 1) != 1) return wants;
            got += c;
            --missing;
        }
        return need::nothing;
    }
    int descriptor() const override { return descriptor_; }

    int descriptor_;
    std::size_t missing;
    need wants;
    std::atomic<int> calls{0};
    std::string got;
};

struct drives : testing::Test {
    wire there;
    instant soon = deadline_after(30ms);
    instant late = deadline_after(support::plenty);
};

/// Whether this many steps are made.
bool is_called(const reading& r, int calls) {
    return eventually([&] { return r.calls >= calls; });
}

TEST_F(drives, to_the_end_at_once_if_they_can) {
    there.say("abc");
    reading a(there.ends[0], 2);
    blocking::drive(a, soon);
    EXPECT_EQ(a.got, "ab");
    EXPECT_EQ(a.calls, 1);
    reading b(there.ends[0], 1);
    await(awaited::drive(b, soon));
    EXPECT_EQ(b.got, "c");
}

TEST_F(drives, on_whenever_there_is_something) {
    for (bool awaited : {false, true}) {
        reading r(there.ends[0], 3);
        std::thread other([&] {
            int calls = 0;
            for (const char* letter : {"x", "y", "z"}) {
                EXPECT_TRUE(is_called(r, ++calls));
                there.say(letter);
            }
        });
        if (awaited) await(awaited::drive(r, late));
        else blocking::drive(r, late);
        other.join();
        EXPECT_EQ(r.got, "xyz");
    }
}

TEST_F(drives, no_longer_than_they_may) {
    support::stopped_clock time;
    for (bool awaited : {false, true}) {
        reading r(there.ends[0], 1);
        std::atomic<bool> over{false};
        std::thread other([&, until = deadline_after(30ms)] {
            if (awaited) EXPECT_THROW(await(awaited::drive(r, until)), exchange_timeout);
            else EXPECT_THROW(blocking::drive(r, until), exchange_timeout);
            over = true;
        });
        EXPECT_TRUE(is_called(r, 1));
        time.advance(30ms - 1ns);
        EXPECT_TRUE(support::for_a_while([&] { return !over; }));
        time.advance(1ns);
        other.join();
    }
    reading c(there.ends[0], 1);
    EXPECT_THROW(await(awaited::drive(c, steady_clock::now() - 1s)), exchange_timeout);
}

/// Never complete, although its socket is always ready, or although it asks for turns.
struct endless final : steps {
    endless(int on, need what) : descriptor_(on), wants(what) {}
    need step() override { return ++calls, wants; }
    int descriptor() const override { return descriptor_; }

    int descriptor_;
    need wants;
    std::atomic<int> calls{0};
};

TEST_F(drives, no_longer_than_they_may_while_there_is_always_something) {
    support::stopped_clock time;
    there.say("never read");
    for (need what : {need::to_read, need::to_write, need::to_do_either, need::a_turn}) {
        for (bool awaited : {false, true}) {
            endless e(there.ends[0], what);
            std::thread other([&, until = deadline_after(1s)] {
                if (awaited) EXPECT_THROW(await(awaited::drive(e, until)), exchange_timeout);
                else EXPECT_THROW(blocking::drive(e, until), exchange_timeout);
            });
            EXPECT_TRUE(eventually([&] { return e.calls > 100; }));
            time.advance(1s);
            other.join();
        }
    }
}

TEST_F(drives, in_turns_with_others_on_the_loop) {
    asio::io_context io;
    endless one(there.ends[0], need::a_turn);
    endless other(there.ends[0], need::a_turn);
    for (endless* each : {&one, &other})
        asio::co_spawn(io, awaited::drive(*each, late), [](const std::exception_ptr&) {});
    while (one.calls < 100) io.run_one();
    EXPECT_NEAR(other.calls, 100, 2);
}

TEST_F(drives, until_they_are_canceled_between_turns) {
    asio::io_context io;
    asio::cancellation_signal stop;
    endless e(there.ends[0], need::a_turn);
    std::exception_ptr error;
    asio::co_spawn(
        io, awaited::drive(e, late),
        asio::bind_cancellation_slot(stop.slot(), [&](const std::exception_ptr& x) { error = x; }));
    while (e.calls < 10) io.run_one();
    stop.emit(asio::cancellation_type::terminal);
    io.run();
    EXPECT_THROW(std::rethrow_exception(error), boost::system::system_error);
}

TEST_F(drives, steps_that_wait_for_either) {
    reading a(there.ends[0], 1, need::to_do_either);  // it can always write
    std::thread other([&] {
        EXPECT_TRUE(is_called(a, 2));
        there.say("e");
    });
    await(awaited::drive(a, late));
    other.join();
    EXPECT_EQ(a.got, "e");
    EXPECT_GT(a.calls, 1);
}

TEST_F(drives, until_they_are_canceled) {
    asio::io_context io;
    asio::cancellation_signal stop;
    reading r(there.ends[0], 1);
    std::exception_ptr error;
    asio::co_spawn(
        io, awaited::drive(r, late),
        asio::bind_cancellation_slot(stop.slot(), [&](const std::exception_ptr& e) { error = e; }));
    io.poll();
    EXPECT_EQ(r.calls, 1);
    stop.emit(asio::cancellation_type::terminal);
    io.run();
    EXPECT_THROW(std::rethrow_exception(error), boost::system::system_error);
}

// The loop must release the descriptor, unchanged, after each operation.
TEST_F(drives, on_one_loop_after_the_other) {
    for (int i = 0; i < 50; ++i) {
        reading r(there.ends[0], 1);
        std::thread other([&] { there.say("n"); });
        if (i % 3 == 0) blocking::drive(r, late);
        else await(awaited::drive(r, late));
        other.join();
        EXPECT_EQ(r.got, "n");
    }
}

TEST_F(drives, nothing_more_when_its_loop_is_destroyed) {
    reading r(there.ends[0], 1);
    {
        asio::io_context io;
        asio::co_spawn(io, awaited::drive(r, late), [](const std::exception_ptr&) {});
        io.poll();
    }
    there.say("s");
    reading next(there.ends[0], 1);
    await(awaited::drive(next, late));
    EXPECT_EQ(next.got, "s");
}

/// Goes from one wire to another, whose descriptor has the same number.
struct hopping final : steps {
    need step() override {
        ++calls;
        char c = 0;
        if (::read(at->ends[0], &c, 1) != 1) return need::to_read;
        got += c;
        if (got.size() == 2) return need::nothing;
        int number = at->ends[0];
        at.reset();
        at.emplace();
        EXPECT_EQ(at->ends[0], number);
        at->say("2");
        return need::to_read;
    }
    int descriptor() const override { return at->ends[0]; }

    std::optional<wire> at{std::in_place};
    std::string got;
    std::atomic<int> calls{0};
};

TEST_F(drives, steps_that_reconnect) {
    hopping h;
    std::thread other([&] {
        EXPECT_TRUE(eventually([&] { return h.calls == 1; }));
        h.at->say("1");
    });
    await(awaited::drive(h, late));
    other.join();
    EXPECT_EQ(h.got, "12");
}

/// Closes its descriptor after its first read; the next operation gets the same number.
struct hanging_up final : steps {
    need step() override {
        char c = 0;
        if (::read(at->ends[0], &c, 1) != 1) return need::to_read;
        int number = at->ends[0];
        at.reset();
        next.emplace();
        EXPECT_EQ(next->ends[0], number);
        begin_next();
        return need::nothing;
    }
    int descriptor() const override { return at->ends[0]; }

    std::optional<wire> at{std::in_place};
    std::optional<wire> next;
    std::function<void()> begin_next;
};

TEST_F(drives, the_next_operation_on_a_descriptor_number_that_was_closed) {
    hanging_up first;
    std::optional<reading> second;
    bool came = false;
    asio::io_context io;
    first.begin_next = [&] {
        second.emplace(first.next->ends[0], 1);
        // The watch begins before the first operation has ended.
        asio::co_spawn(
            io, [&]() -> asio::awaitable<void> { co_await awaited::drive(*second, late); },
            [&](const std::exception_ptr& error) { came = !error; });
        io.poll();
    };
    asio::co_spawn(
        io, [&]() -> asio::awaitable<void> { co_await awaited::drive(first, late); },
        asio::detached);
    io.poll();
    first.at->say("f");
    ASSERT_TRUE(eventually([&] { return io.poll(), second.has_value(); }));
    first.next->say("s");
    EXPECT_TRUE(eventually([&] { return io.poll(), came; }));
}

// Timers fire while replies come, on several threads. They count milliseconds: once a test has
// stopped the clock, no timer of Boost.Asio is more exact.
TEST_F(drives, many_at_once_on_several_threads) {
    asio::io_context io;
    std::atomic<int> in_time{0}, too_late{0};
    auto one = [&](int i) -> asio::awaitable<void> {
        wire mine;
        reading r(mine.ends[0], 1);
        auto strand = co_await asio::this_coro::executor;
        asio::steady_timer timer(strand, std::chrono::milliseconds{i % 7});
        bool said = false;
        timer.async_wait([&](auto) {
            mine.say("r");
            said = true;
        });
        try {
            co_await awaited::drive(r, deadline_after(3ms));
            ++in_time;
        } catch (const exchange_timeout&) {
            ++too_late;
        }
        // A wait for an expired timer may complete before earlier waits for that timer.
        while (!said) co_await timer.async_wait(asio::use_awaitable);
    };
    for (int i = 0; i < 300; ++i)
        asio::co_spawn(asio::make_strand(io), one(i),
                       [](const std::exception_ptr& e) { EXPECT_EQ(e, nullptr); });
    std::vector<std::thread> threads;
    for (int i = 0; i < loop_threads; ++i) threads.emplace_back([&] { io.run(); });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(in_time + too_late, 300);
}

TEST(deadline_after, is_never_for_the_longest_duration) {
    EXPECT_EQ(deadline_after(std::chrono::nanoseconds::max()), instant::max());
    instant past = deadline_after(-1s);
    EXPECT_LE(past, steady_clock::now());
}

}  // namespace
}  // namespace cenote::connector_detail

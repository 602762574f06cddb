// Steps driven by threads and by coroutines: they go on when their socket lets them, end in time,
// and can be cancelled.
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
#include "support/patience.hpp"

namespace cenote::connector_detail {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using support::await;

// Boost.Asio counts the references to a strand with fences, which the thread sanitizer does not
// understand: it takes the last of two threads to let go of one for a race.
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

/// Reads so many bytes.
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
    int calls = 0;
    std::string got;
};

struct drives : testing::Test {
    wire there;
    instant soon = deadline_after(30ms);
    instant late = deadline_after(support::plenty);
};

TEST_F(drives, to_the_end_at_once_if_they_can) {
    there.say("abc");
    reading a(there.ends[0], 2);
    drive(a, soon);
    EXPECT_EQ(a.got, "ab");
    EXPECT_EQ(a.calls, 1);
    reading b(there.ends[0], 1);
    await(async_drive(b, soon));
    EXPECT_EQ(b.got, "c");
}

TEST_F(drives, on_whenever_there_is_something) {
    for (bool awaited : {false, true}) {
        reading r(there.ends[0], 3);
        std::thread other([&] {
            for (const char* letter : {"x", "y", "z"}) {
                support::pass(5ms);
                there.say(letter);
            }
        });
        if (awaited) await(async_drive(r, late));
        else drive(r, late);
        other.join();
        EXPECT_EQ(r.got, "xyz");
    }
}

TEST_F(drives, no_longer_than_they_may) {
    auto begun = steady_clock::now();
    reading a(there.ends[0], 1);
    EXPECT_THROW(drive(a, deadline_after(30ms)), exchange_timeout);
    EXPECT_GE(steady_clock::now() - begun, 30ms);
    begun = steady_clock::now();
    reading b(there.ends[0], 1);
    EXPECT_THROW(await(async_drive(b, deadline_after(30ms))), exchange_timeout);
    EXPECT_GE(steady_clock::now() - begun, 30ms);
    reading c(there.ends[0], 1);
    EXPECT_THROW(await(async_drive(c, steady_clock::now() - 1s)), exchange_timeout);
}

TEST_F(drives, those_who_can_do_either) {
    reading a(there.ends[0], 1, need::to_do_either);  // it can always write
    std::thread other([&] {
        support::pass(5ms);
        there.say("e");
    });
    await(async_drive(a, late));
    other.join();
    EXPECT_EQ(a.got, "e");
    EXPECT_GT(a.calls, 1);
}

TEST_F(drives, until_they_are_cancelled) {
    asio::io_context io;
    asio::cancellation_signal stop;
    reading r(there.ends[0], 1);
    std::exception_ptr error;
    asio::co_spawn(
        io, async_drive(r, late),
        asio::bind_cancellation_slot(stop.slot(), [&](const std::exception_ptr& e) { error = e; }));
    asio::steady_timer timer(io, 10ms);
    timer.async_wait([&](auto) { stop.emit(asio::cancellation_type::terminal); });
    io.run();
    EXPECT_THROW(std::rethrow_exception(error), boost::system::system_error);
}

// The descriptor is not the loop's: whoever has it next finds it as it was.
TEST_F(drives, on_one_loop_after_the_other) {
    for (int i = 0; i < 50; ++i) {
        reading r(there.ends[0], 1);
        std::thread other([&] { there.say("n"); });
        if (i % 3 == 0) drive(r, late);
        else await(async_drive(r, late));
        other.join();
        EXPECT_EQ(r.got, "n");
    }
}

TEST_F(drives, nothing_more_when_its_loop_is_gone) {
    reading r(there.ends[0], 1);
    {
        asio::io_context io;
        asio::co_spawn(io, async_drive(r, late), [](const std::exception_ptr&) {});
        io.poll();
    }
    there.say("s");
    reading next(there.ends[0], 1);
    await(async_drive(next, late));
    EXPECT_EQ(next.got, "s");
}

/// Goes from one wire to another, whose descriptor has the same number.
struct hopping final : steps {
    need step() override {
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
};

TEST_F(drives, those_who_reconnect) {
    hopping h;
    std::thread other([&] {
        support::pass(5ms);
        h.at->say("1");
    });
    await(async_drive(h, late));
    other.join();
    EXPECT_EQ(h.got, "12");
}

/// Hangs up as soon as it has read something, and somebody else gets its descriptor's number.
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

TEST_F(drives, nobody_off_the_loop_who_has_the_number_of_one_that_hung_up) {
    hanging_up first;
    std::optional<reading> second;
    bool came = false;
    asio::io_context io;
    first.begin_next = [&] {
        second.emplace(first.next->ends[0], 1);
        // Watched before the first one's conversation has ended.
        asio::co_spawn(
            io, [&]() -> asio::awaitable<void> { co_await async_drive(*second, late); },
            [&](const std::exception_ptr& error) { came = !error; });
        io.poll();
    };
    asio::co_spawn(
        io, [&]() -> asio::awaitable<void> { co_await async_drive(first, late); }, asio::detached);
    io.poll();
    first.at->say("f");
    support::pass(1ms);
    io.poll();
    ASSERT_TRUE(second);
    first.next->say("s");
    EXPECT_TRUE(support::eventually([&] { return io.poll(), came; }));
}

// Timers fire while replies come, on several threads.
TEST_F(drives, many_at_once_on_several_threads) {
    asio::io_context io;
    std::atomic<int> in_time{0}, too_late{0};
    auto one = [&](int i) -> asio::awaitable<void> {
        wire mine;
        reading r(mine.ends[0], 1);
        auto strand = co_await asio::this_coro::executor;
        asio::steady_timer timer(strand, std::chrono::microseconds{i % 7 * 300});
        bool said = false;
        timer.async_wait([&](auto) {
            mine.say("r");
            said = true;
        });
        try {
            co_await async_drive(r, deadline_after(1ms));
            ++in_time;
        } catch (const exchange_timeout&) {
            ++too_late;
        }
        // Whoever waits for a timer that is over may be called before those who waited for it.
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

TEST(deadline_after, knows_for_ever) {
    EXPECT_EQ(deadline_after(std::chrono::nanoseconds::max()), instant::max());
    instant past = deadline_after(-1s);
    EXPECT_LE(past, steady_clock::now());
}

}  // namespace
}  // namespace cenote::connector_detail

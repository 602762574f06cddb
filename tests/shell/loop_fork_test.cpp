// Pools on an executor after a fork: the parent's calls do not go on in the child.
#include <array>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "support/patience.hpp"
#include "support/wires.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using boost::system::error_code;
using support::in_child;
using support::message;
using support::plenty;
using support::wire;
using wire_pool = cenote::pool<wire>;

namespace {

struct async_wires {
    std::shared_ptr<support::exchange> to;
    std::shared_ptr<int> forsaken = std::make_shared<int>(0);

    asio::awaitable<wire> open() const {
        wire w(to->connect());
        w.say('o');
        co_return w;
    }
    static asio::awaitable<bool> probe(wire& w) { co_return w.say('p'), true; }
    static asio::awaitable<void> close(wire& w) {
        w.say('c');
        co_return;
    }
    void forsake(wire& w) const {
        ++*forsaken;
        ::close(w.fd());
    }
};

struct loop_fork : testing::Test {
    asio::io_context io;
    std::shared_ptr<support::exchange> to = std::make_shared<support::exchange>();
    async_wires connect{to};
    std::optional<wire_pool> pool;

    /// A lease, by running the loop.
    cenote::lease<wire> take() {
        cenote::lease<wire> held;
        pool->async_acquire_for(plenty,
                                asio::bind_executor(io, [&](error_code, cenote::lease<wire> got) {
                                    held = std::move(got);
                                }));
        io.restart();
        while (!held && io.run_one_for(plenty) > 0) {
        }
        return held;
    }
    bool works() {
        for (int i = 0; i < 5; ++i) {
            auto held = take();
            if (!held || !held->is_ours()) return false;
            held->say('u');
            if (i == 3) held.discard();
        }
        return true;
    }
    /// As Asio wants it.
    template <class Work>
    bool forked(Work&& work) {
        io.notify_fork(asio::execution_context::fork_prepare);
        bool well = in_child([&] {
            io.notify_fork(asio::execution_context::fork_child);
            return work();
        });
        io.notify_fork(asio::execution_context::fork_parent);
        return well;
    }
    void TearDown() override {
        EXPECT_EQ(to->foreign_words(), 0);
        EXPECT_TRUE(!pool || works());
        pool.reset();
        io.restart();
        io.run();
        EXPECT_EQ(to->foreign_words(), 0);
    }
};

}  // namespace

TEST_F(loop_fork, parent_and_child_both_work_on) {
    pool.emplace(io, connect, cenote::options{.max = 2, .min_size = 2});
    ASSERT_TRUE(works());
    auto held = take();
    while (pool->stats().idle == 0) io.run_one();
    EXPECT_TRUE(forked([&] {
        CHILD_MUST(works());
        CHILD_MUST(*connect.forsaken == 1);
        held.give_back();
        CHILD_MUST(*connect.forsaken == 2);
        CHILD_MUST(works());
        pool.reset();
        io.restart();
        io.run();
        return true;
    }));
    EXPECT_EQ(*connect.forsaken, 0);
}

TEST_F(loop_fork, the_child_need_not_run_the_loop) {
    pool.emplace(io, connect, cenote::options{.max = 2, .min_size = 2});
    auto held = take();
    EXPECT_TRUE(forked([&] {
        pool.reset();
        held.give_back();
        return true;
    }));
}

TEST_F(loop_fork, the_childs_loop_may_go_first) {
    auto own = std::make_unique<asio::io_context>();
    std::optional<wire_pool> other;
    other.emplace(*own, connect, cenote::options{.max = 2, .min_size = 2});
    own->poll();
    EXPECT_TRUE(forked([&] {
        own->notify_fork(asio::execution_context::fork_child);
        own.reset();
        other.reset();
        return true;
    }));
}

/// Greets a server and waits for its answer before it says more.
struct talker {
    std::shared_ptr<int> near_end;

    asio::awaitable<int> open() const {
        asio::local::stream_protocol::socket socket(co_await asio::this_coro::executor,
                                                    asio::local::stream_protocol(), *near_end);
        std::array<char, 1> word{};
        co_await asio::async_read(socket, asio::buffer(word), asio::use_awaitable);
        message m{.from = getpid(), .verb = '!'};
        co_await asio::async_write(socket, asio::buffer(&m, sizeof m), asio::use_awaitable);
        co_return socket.release();
    }
};

// The parent's open waits for the server; the server answers while the child runs the loop.
TEST_F(loop_fork, a_call_under_way_does_not_go_on_in_the_child) {
    int pair[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    cenote::pool<int> other(io, talker{std::make_shared<int>(pair[0])},
                            {.max = 1, .min_size = 1, .open_timeout = plenty});
    io.poll();
    EXPECT_TRUE(forked([&] {
        CHILD_MUST(send(pair[1], "x", 1, 0) == 1);
        io.run_for(50ms);
        return true;
    }));
    message m;
    EXPECT_LT(recv(pair[1], &m, sizeof m, MSG_DONTWAIT), 0) << m.from;
    int got = -1;
    other.async_acquire_for(plenty,
                            asio::bind_executor(io, [&](error_code, cenote::lease<int> held) {
                                if (held) got = *held;
                                other.close();
                            }));
    io.restart();
    io.run();
    EXPECT_GE(got, 0);
    EXPECT_EQ(recv(pair[1], &m, sizeof m, MSG_DONTWAIT), static_cast<ssize_t>(sizeof m));
    EXPECT_EQ(m.from, getpid());
    close(got);
    close(pair[1]);
}

TEST_F(loop_fork, an_operation_that_waits_is_left_alone_in_the_child_unless_canceled) {
    pool.emplace(io, connect, cenote::options{.max = 1});
    auto held = take();
    asio::cancellation_signal stop;
    int outcome = 0;
    pool->async_acquire_for(
        plenty,
        asio::bind_cancellation_slot(
            stop.slot(), asio::bind_executor(io, [&](error_code error, cenote::lease<wire> got) {
                outcome = got ? 1 : error == make_error_code(cenote::errc::canceled) ? -1 : -2;
            })));
    io.poll();
    EXPECT_TRUE(forked([&] {
        CHILD_MUST(works());
        held.give_back();
        CHILD_MUST(works());
        CHILD_MUST(outcome == 0);
        stop.emit(asio::cancellation_type::terminal);
        io.restart();
        io.poll();
        CHILD_MUST(outcome == -1);
        return true;
    }));
    held.give_back();
    io.restart();
    while (outcome == 0) io.run_one_for(plenty);
    EXPECT_EQ(outcome, 1);
}

TEST_F(loop_fork, a_coroutine_that_waits_is_left_alone_in_the_child_unless_canceled) {
    pool.emplace(io, connect, cenote::options{.max = 1});
    auto held = take();
    asio::cancellation_signal stop;
    int outcome = 0;
    auto wait = [&]() -> asio::awaitable<void> {
        std::error_code error;
        auto got = co_await pool->co_acquire({.timeout = plenty}, error);
        outcome = got ? 1 : error == cenote::errc::canceled ? -1 : -2;
    };
    asio::co_spawn(io, wait, asio::bind_cancellation_slot(stop.slot(), asio::detached));
    io.restart();
    io.poll();
    ASSERT_EQ(pool->stats().waiting, 1U);
    EXPECT_TRUE(forked([&] {
        CHILD_MUST(works());
        held.give_back();
        CHILD_MUST(works());
        CHILD_MUST(outcome == 0);
        stop.emit(asio::cancellation_type::terminal);
        io.restart();
        io.poll();
        CHILD_MUST(outcome == -1);
        return true;
    }));
    held.give_back();
    io.restart();
    while (outcome == 0) io.run_one_for(plenty);
    EXPECT_EQ(outcome, 1);
}

// Pools that an Asio user would write: a channel, and a strand with a deque and a timer per waiter.
#pragma once

#include <atomic>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "subjects.hpp"

namespace cenote::bench {

namespace asio = boost::asio;

/// One io_context for `threads` threads.
class asio_loop {
public:
    using coroutine = asio::awaitable<void>;

    explicit asio_loop(std::size_t threads) : io(static_cast<int>(threads)) {}

    void spawn(coroutine started) { asio::co_spawn(io, std::move(started), asio::detached); }

    /// Starts `count` coroutines, so that their creation is not measured.
    void begin(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) io.poll_one();
    }

    static auto yield() { return asio::post(asio::use_awaitable); }

    void run() { io.run(); }

    asio::io_context io;
};

/// One io_context per thread; coroutines are distributed over them.
class asio_loop_each {
public:
    using coroutine = asio::awaitable<void>;

    explicit asio_loop_each(std::size_t threads) {
        while (loops.size() < threads) loops.emplace_back(1);
    }

    void spawn(coroutine started) {
        asio::co_spawn(loops[spawned_++ % loops.size()], std::move(started), asio::detached);
    }

    void begin(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) loops[i % loops.size()].poll_one();
    }

    static auto yield() { return asio::post(asio::use_awaitable); }

    void run() { loops[running_++ % loops.size()].run(); }

    std::deque<asio::io_context> loops;

private:
    std::size_t spawned_ = 0;
    std::atomic<std::size_t> running_{0};
};

/// With the concrete executor type, because any_io_executor would be slower.
using channel = asio::experimental::concurrent_channel<asio::io_context::executor_type,
                                                       void(boost::system::error_code, resource*)>;

/// The resources of a peer, each on the heap.
class resource_set {
public:
    explicit resource_set(std::size_t size) {
        for (std::size_t i = 0; i < size; ++i) all_.push_back(std::make_unique<resource>());
    }
    auto begin() const { return all_.begin(); }
    auto end() const { return all_.end(); }

private:
    std::vector<std::unique_ptr<resource>> all_;
};

/// A channel of idle resources: receiving acquires. Its capacity fits all resources, so sending
/// never waits.
class channel_pool {
public:
    channel_pool(asio_loop& loop, std::size_t size) : resources_(size), idle_(loop.io, size) {
        for (const auto& t : resources_) release(t.get());
    }

    auto acquire() { return idle_.async_receive(asio::use_awaitable); }
    void release(resource* back) { idle_.try_send(boost::system::error_code(), back); }

    channel& idle() { return idle_; }

private:
    resource_set resources_;
    channel idle_;
};

/// A borrower of a channel_pool as a chain of callbacks, without a coroutine.
class callback_borrower {
public:
    enum class hold { shortly, over_a_yield };

    /// `is_last` is called after each cycle; true ends the borrower.
    template <class IsLast>
    static void start(asio_loop& loop, channel_pool& pool, hold how, IsLast is_last) {
        auto* self = new of<IsLast>(loop, pool, how, std::move(is_last));
        asio::post(loop.io, [self] { self->acquire(); });
    }

private:
    /// Deletes itself at its end.
    template <class IsLast>
    struct of {
        of(asio_loop& l, channel_pool& p, hold h, IsLast last)
            : loop(l), pool(p), how(h), is_last(std::move(last)) {}

        void acquire() {
            pool.idle().async_receive([this](boost::system::error_code, resource* granted) {
                leased = granted;
                ++leased->uses;
                if (how == hold::shortly) release();
                else asio::post(loop.io, [this] { release(); });
            });
        }
        void release() {
            pool.release(leased);
            if (is_last()) delete this;
            else acquire();
        }

        asio_loop& loop;
        channel_pool& pool;
        hold how;
        IsLast is_last;
        resource* leased = nullptr;
    };
};

/// A textbook pool for Asio: everything runs on a strand; a waiter is a handler in a deque, with a
/// timer for its deadline.
class strand_pool {
    using signature = void(boost::system::error_code, resource*);
    using any_handler = asio::any_completion_handler<signature>;

public:
    strand_pool(asio_loop& loop, std::size_t size)
        : io_(loop.io), strand_(asio::make_strand(loop.io)), resources_(size) {
        for (const auto& t : resources_) idle_.push_back(t.get());
    }

    template <class Token>
    auto async_acquire(std::chrono::nanoseconds timeout, Token&& token) {
        auto start = [this, timeout](auto handler) {
            asio::dispatch(strand_, [this, timeout, handler = std::move(handler)]() mutable {
                lend_or_wait(timeout, std::move(handler));
            });
        };
        return asio::async_initiate<Token, signature>(start, token);
    }

    auto acquire() { return async_acquire(std::chrono::seconds(30), asio::use_awaitable); }

    void release(resource* back) {
        asio::post(strand_, [this, back] {
            if (waiting_.empty()) {
                idle_.push_back(back);
                return;
            }
            std::shared_ptr<waiter> next = std::move(waiting_.front());
            waiting_.pop_front();
            next->deadline.cancel();
            complete(std::move(next->handler), {}, back);
        });
    }

private:
    struct waiter {
        waiter(any_handler h, asio::steady_timer timer)
            : handler(std::move(h)), deadline(std::move(timer)) {}
        any_handler handler;
        asio::steady_timer deadline;
    };

    template <class Handler>
    void lend_or_wait(std::chrono::nanoseconds timeout, Handler handler) {
        if (!idle_.empty()) {
            resource* taken = idle_.back();
            idle_.pop_back();
            complete(std::move(handler), {}, taken);
            return;
        }
        auto last = std::make_shared<waiter>(any_handler(std::move(handler)),
                                             asio::steady_timer(strand_, timeout));
        waiting_.push_back(last);
        last->deadline.async_wait([this, last](boost::system::error_code canceled) {
            if (canceled || std::erase(waiting_, last) == 0) return;
            complete(std::move(last->handler), asio::error::timed_out, nullptr);
        });
    }

    template <class Handler>
    void complete(Handler handler, boost::system::error_code error, resource* granted) {
        asio::post(io_, asio::append(std::move(handler), error, granted));
    }

    asio::io_context& io_;
    asio::strand<asio::io_context::executor_type> strand_;
    resource_set resources_;
    std::vector<resource*> idle_;
    std::deque<std::shared_ptr<waiter>> waiting_;
};

}  // namespace cenote::bench

// Work threads: run what can only block (name lookups, SQLite's calls, cancel requests) on behalf
// of coroutines.
#pragma once

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

namespace cenote::connector_detail {

/// The threads; started at their first use, and again after a fork.
boost::asio::thread_pool& work_threads();

/// Runs a function without a way to wait for it, such as a cancel request. Has two threads of its
/// own, since the call may hang with the server. False: the queue is full, the function is not run.
bool run_detached(std::function<void()> what) noexcept;

/// A call for a work thread. It may run after the coroutine that awaited it was destroyed, so it
/// owns what it uses.
template <class Result>
class work_call {
public:
    virtual ~work_call() = default;
    virtual Result run() = 0;
    /// Asks run() to end early. Called from any thread, at most once, perhaps after run() has
    /// ended.
    virtual void stop() noexcept {}
};

namespace work_detail {

namespace asio = boost::asio;

template <class Result>
struct outcome {
    std::exception_ptr error;
    std::optional<Result> value;
};

/// A coroutine that awaits a work_call.
class loop_waiter {
public:
    virtual ~loop_waiter() = default;
    /// Destroys the coroutine, because its event loop is being destroyed, on this thread.
    virtual void abandon() noexcept = 0;
};

/// The waiters of one event loop. A work thread may touch the loop only while complete() runs.
class loop_waiters {
public:
    void add(const std::shared_ptr<loop_waiter>& waiter);
    /// Calls `deliver` unless the loop is gone; the loop stays until `deliver` returns.
    template <class Deliver>
    void complete(const std::shared_ptr<loop_waiter>& waiter, Deliver deliver) {
        std::lock_guard lock(mutex_);
        if (present_.erase(waiter) == 1) deliver();
    }
    /// Waits until no completion is touching the loop. (Asio counts the references to an executor
    /// with fences, which the thread sanitizer does not understand; it understands this.)
    void synchronize() { std::lock_guard lock(mutex_); }
    void abandon_all() noexcept;

    static std::shared_ptr<loop_waiters> of(asio::execution_context& loop);

private:
    std::mutex mutex_;
    std::set<std::shared_ptr<loop_waiter>> present_;
};

template <class Result, class Handler>
class awaited_call final : public loop_waiter,
                           public std::enable_shared_from_this<awaited_call<Result, Handler>> {
public:
    awaited_call(std::shared_ptr<work_call<Result>> call, Handler handler)
        : call_(std::move(call)),
          executor_(asio::get_associated_executor(handler)),
          handler_(std::move(handler)),
          work_(asio::make_work_guard(*executor_)),
          waiters_(loop_waiters::of(asio::query(*executor_, asio::execution::context))) {}

    void start() {
        waiters_->add(this->shared_from_this());
        asio::post(work_threads(), [me = this->shared_from_this()] { me->run(); });
    }

    void abandon() noexcept override { release_loop(); }

private:
    void run() {
        auto result = std::make_unique<outcome<Result>>();
        try {
            result->value.emplace(call_->run());
        } catch (...) {
            result->error = std::current_exception();
        }
        call_.reset();
        waiters_->complete(this->shared_from_this(), [&] {
            asio::post(*executor_, [waiters = waiters_, handler = std::move(*handler_),
                                    result = std::move(result)]() mutable {
                waiters->synchronize();
                std::move(handler)(std::move(result));
            });
            release_loop();
        });
    }

    void release_loop() noexcept {
        handler_.reset();
        work_.reset();
        executor_.reset();
    }

    using executor = asio::associated_executor_t<Handler>;

    std::shared_ptr<work_call<Result>> call_;
    std::optional<executor> executor_;
    std::optional<Handler> handler_;
    std::optional<asio::executor_work_guard<executor>> work_;
    std::shared_ptr<loop_waiters> waiters_;
};

template <class Result, class Do>
class function_call final : public work_call<Result> {
public:
    explicit function_call(Do what) : do_(std::move(what)) {}
    Result run() override { return do_(); }

private:
    Do do_;
};

}  // namespace work_detail

/// Runs a call on a work thread; the coroutine resumes on its executor. If the coroutine is
/// canceled, the call is told to stop and still awaited: it is using the session.
template <class Result>
boost::asio::awaitable<Result> async_run(std::shared_ptr<work_call<Result>> call) {
    namespace asio = boost::asio;
    using outcome = std::unique_ptr<work_detail::outcome<Result>>;
    auto start = [](auto handler, std::shared_ptr<work_call<Result>> c) {
        auto slot = asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected())
            slot.assign([weak = std::weak_ptr(c)](asio::cancellation_type) {
                if (auto still = weak.lock()) still->stop();
            });
        using operation = work_detail::awaited_call<Result, decltype(handler)>;
        std::make_shared<operation>(std::move(c), std::move(handler))->start();
    };
    auto token = asio::use_awaitable;
    outcome got = co_await asio::async_initiate<decltype(token)&, void(outcome)>(start, token,
                                                                                 std::move(call));
    if (got->error != nullptr) std::rethrow_exception(got->error);
    co_return std::move(*got->value);
}

/// Runs a function that returns a value and cannot be stopped.
template <class Do>
auto async_run_function(Do what) {
    using result = std::invoke_result_t<Do&>;
    std::shared_ptr<work_call<result>> call =
        std::make_shared<work_detail::function_call<result, Do>>(std::move(what));
    return async_run<result>(std::move(call));
}

}  // namespace cenote::connector_detail

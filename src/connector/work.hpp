// Work threads: run what can only block (name lookups, SQLite's calls, cancel requests, functions
// of the user) on behalf of coroutines.
#pragma once

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "cenote/detail/process.hpp"

namespace cenote::connector_detail {

/// The threads; started at their first use, and again after a fork.
boost::asio::thread_pool& work_threads();

/// Runs a coroutine of the user on an event loop of its own. Cancels it at the deadline, and waits
/// for its end. Throws what it throws, and exchange_timeout. `name`: of the option.
void run_on_own_loop(boost::asio::awaitable<void> what,
                     std::chrono::steady_clock::time_point deadline, const char* name);

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
    /// Runs the call, on a work thread.
    virtual void run() = 0;
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

}  // namespace work_detail

/// Threads for functions of the user, which may hang. At most four functions run at the same time;
/// the others wait in a queue. A thread ends when the queue is empty.
class user_threads : public std::enable_shared_from_this<user_threads> {
public:
    /// Runs the call on one of the threads, unless nothing else refers to it by then. Throws
    /// std::system_error if there is no thread.
    void post(const std::shared_ptr<work_detail::loop_waiter>& call);

private:
    void work();
    std::shared_ptr<work_detail::loop_waiter> next();

    std::mutex mutex_;
    std::deque<std::weak_ptr<work_detail::loop_waiter>> queue_;
    std::size_t running_ = 0;  // threads
    detail::process_number process_ = detail::this_process;
};

namespace work_detail {

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

    void start_on(user_threads& threads) {
        waiters_->add(this->shared_from_this());
        try {
            threads.post(this->shared_from_this());
        } catch (...) {
            fail(std::current_exception());
        }
    }

    /// Resumes the coroutine with this error. The call may run on.
    void fail(std::exception_ptr why) {
        auto result = std::make_unique<outcome<Result>>();
        result->error = std::move(why);
        complete(std::move(result));
    }

    void abandon() noexcept override { release_loop(); }

    void run() override {
        auto result = std::make_unique<outcome<Result>>();
        try {
            result->value.emplace(call_->run());
        } catch (...) {
            result->error = std::current_exception();
        }
        call_.reset();
        complete(std::move(result));
    }

private:
    void complete(std::unique_ptr<outcome<Result>> result) {
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

/// Runs a function of the user on threads for such functions. If the coroutine is canceled it
/// resumes at once, and the function may run on: it owns what it uses.
template <class Do>
auto async_run_user_function(std::shared_ptr<user_threads> on, Do what)
    -> boost::asio::awaitable<std::invoke_result_t<Do&>> {
    namespace asio = boost::asio;
    using result = std::invoke_result_t<Do&>;
    using outcome = std::unique_ptr<work_detail::outcome<result>>;
    std::shared_ptr<work_call<result>> call =
        std::make_shared<work_detail::function_call<result, Do>>(std::move(what));
    auto start = [](auto handler, const std::shared_ptr<user_threads>& threads,
                    std::shared_ptr<work_call<result>> c) {
        auto slot = asio::get_associated_cancellation_slot(handler);
        using operation = work_detail::awaited_call<result, decltype(handler)>;
        auto waiting = std::make_shared<operation>(std::move(c), std::move(handler));
        if (slot.is_connected())
            slot.assign([weak = std::weak_ptr(waiting)](asio::cancellation_type) {
                const boost::system::system_error why(asio::error::operation_aborted);
                if (auto still = weak.lock()) still->fail(std::make_exception_ptr(why));
            });
        waiting->start_on(*threads);
    };
    auto token = asio::use_awaitable;
    outcome got = co_await asio::async_initiate<decltype(token)&, void(outcome)>(
        start, token, std::move(on), std::move(call));
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

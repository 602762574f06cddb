// A few threads for what cannot be done without blocking, on behalf of coroutines: name lookups,
// SQLite's calls, cancel requests.
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
#include <utility>

namespace cenote::connector_detail {

/// The threads, started when first used, and anew after a fork.
boost::asio::thread_pool& work_threads();

/// Has something done that nobody waits for: a cancel request. On two threads of their own, since
/// it may hang with the server it is meant for. False: too much is waiting already, it is not done.
bool run_aside(std::function<void()> what) noexcept;

/// Something to be called on a work thread. Whoever awaits it may be gone before it has run: what
/// it needs it must own.
template <class Result>
class errand {
public:
    virtual ~errand() = default;
    virtual Result run() = 0;
    /// Somebody wants it to end early. From any thread, at most once, perhaps when it has ended.
    virtual void stop() noexcept {}
};

namespace work_detail {

namespace asio = boost::asio;

template <class Result>
struct outcome {
    std::exception_ptr error;
    std::optional<Result> value;
};

/// Somebody who awaits an errand.
class awaiting {
public:
    virtual ~awaiting() = default;
    /// Their event loop is going away: they are destroyed here and now, on its thread.
    virtual void abandon() noexcept = 0;
};

/// Those of one event loop who await errands. A thread that has run one may only turn to the loop
/// while that is still there.
class visitors {
public:
    void add(const std::shared_ptr<awaiting>& who);
    /// Calls `go` unless the loop has gone; it is not going meanwhile.
    template <class Go>
    void take_leave(const std::shared_ptr<awaiting>& who, Go go) {
        std::lock_guard lock(mutex_);
        if (present_.erase(who) == 1) go();
    }
    /// Returns when whoever takes leave at this moment has nothing of the loop's any more. (The
    /// references to an executor are counted in a way that the thread sanitizer does not
    /// understand; this it does.)
    void see_off() { std::lock_guard lock(mutex_); }
    void abandon_all() noexcept;

    /// Of the loop that an executor belongs to.
    static std::shared_ptr<visitors> of(asio::execution_context& loop);

private:
    std::mutex mutex_;
    std::set<std::shared_ptr<awaiting>> present_;
};

template <class Result, class Handler>
class awaiting_errand final
    : public awaiting,
      public std::enable_shared_from_this<awaiting_errand<Result, Handler>> {
public:
    using came_to = std::unique_ptr<outcome<Result>>;

    awaiting_errand(std::shared_ptr<errand<Result>> what, Handler handler)
        : what_(std::move(what)),
          home_(asio::get_associated_executor(handler)),
          handler_(std::move(handler)),
          busy_(asio::make_work_guard(*home_)),
          visitors_(visitors::of(asio::query(*home_, asio::execution::context))) {}

    void start() {
        visitors_->add(this->shared_from_this());
        asio::post(work_threads(), [me = this->shared_from_this()] { me->run(); });
    }

    void abandon() noexcept override { let_go(); }

private:
    void run() {
        auto result = std::make_unique<outcome<Result>>();
        try {
            result->value.emplace(what_->run());
        } catch (...) {
            result->error = std::current_exception();
        }
        what_.reset();
        visitors_->take_leave(this->shared_from_this(), [&] {
            asio::post(*home_, [at = visitors_, handler = std::move(*handler_),
                                result = std::move(result)]() mutable {
                at->see_off();
                std::move(handler)(std::move(result));
            });
            let_go();
        });
    }

    void let_go() noexcept {
        handler_.reset();
        busy_.reset();
        home_.reset();
    }

    using executor = asio::associated_executor_t<Handler>;

    std::shared_ptr<errand<Result>> what_;
    std::optional<executor> home_;
    std::optional<Handler> handler_;
    std::optional<asio::executor_work_guard<executor>> busy_;
    std::shared_ptr<visitors> visitors_;
};

}  // namespace work_detail

/// Runs it on a work thread; the coroutine goes on where it was. If the coroutine is cancelled, the
/// errand is told to stop, and its end is awaited nevertheless: what it works on is in use.
template <class Result>
boost::asio::awaitable<Result> async_run(std::shared_ptr<errand<Result>> what) {
    namespace asio = boost::asio;
    using came_to = std::unique_ptr<work_detail::outcome<Result>>;
    auto start = [](auto handler, std::shared_ptr<errand<Result>> e) {
        auto slot = asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected())
            slot.assign([weak = std::weak_ptr(e)](asio::cancellation_type) {
                if (auto still = weak.lock()) still->stop();
            });
        using operation = work_detail::awaiting_errand<Result, decltype(handler)>;
        std::make_shared<operation>(std::move(e), std::move(handler))->start();
    };
    auto token = asio::use_awaitable;
    came_to got = co_await asio::async_initiate<decltype(token)&, void(came_to)>(start, token,
                                                                                 std::move(what));
    if (got->error != nullptr) std::rethrow_exception(got->error);
    co_return std::move(*got->value);
}

}  // namespace cenote::connector_detail

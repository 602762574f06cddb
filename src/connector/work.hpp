// A few threads for what cannot be done without blocking, on behalf of coroutines: name lookups,
// SQLite's calls, cancel requests.
#pragma once

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace cenote::connector_detail {

/// The threads, started when first used, and anew after a fork.
boost::asio::thread_pool& work_threads();

/// Has something done that nobody waits for: a cancel request. On two threads of their own, since
/// it may hang with the server it is meant for. False: too much is waiting already, it is not done.
bool run_aside(std::function<void()> what) noexcept;

/// Something to be called on a work thread. The coroutine that awaits it owns it, and may be gone
/// before it has run: whatever it needs it must own.
template <class Result>
class errand {
public:
    virtual ~errand() = default;
    virtual Result run() = 0;
    /// Somebody wants it to end early. From any thread, at most once, perhaps when it has ended.
    virtual void stop() noexcept {}
};

namespace work_detail {

template <class Result>
struct outcome {
    std::exception_ptr error;
    std::optional<Result> value;
};

template <class Result, class Handler>
void run_there(std::shared_ptr<errand<Result>> what, Handler handler) {
    auto home = boost::asio::get_associated_executor(handler);
    auto busy = boost::asio::make_work_guard(home);
    boost::asio::post(work_threads(), [what = std::move(what), handler = std::move(handler), home,
                                       busy = std::move(busy)]() mutable {
        auto came_to = std::make_unique<outcome<Result>>();
        try {
            came_to->value.emplace(what->run());
        } catch (...) {
            came_to->error = std::current_exception();
        }
        what.reset();
        boost::asio::post(home,
                          [handler = std::move(handler), came_to = std::move(came_to)]() mutable {
                              std::move(handler)(std::move(came_to));
                          });
        busy.reset();
    });
}

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
        work_detail::run_there<Result>(std::move(e), std::move(handler));
    };
    auto token = asio::use_awaitable;
    came_to got = co_await asio::async_initiate<decltype(token)&, void(came_to)>(start, token,
                                                                                 std::move(what));
    if (got->error != nullptr) std::rethrow_exception(got->error);
    co_return std::move(*got->value);
}

}  // namespace cenote::connector_detail

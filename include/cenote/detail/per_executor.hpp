// How per_executor starts an acquire in the shard of its executor, and gathers what all shards do.
#pragma once

#include <boost/asio/append.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/error_code.hpp>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/detail/asio_wait.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/lease.hpp"

namespace cenote {

template <class T>
class per_executor;

}  // namespace cenote

namespace cenote::detail {

/// The execution context of an executor, or the context itself.
template <class Where>
const asio::execution_context* context_of(const Where& where) {
    if constexpr (std::derived_from<Where, asio::execution_context>) return &where;
    else return &asio::query(where, asio::execution::context);
}

/// Starts an acquire in the shard of the handler's executor.
template <class T>
struct start_acquire_at_home {
    template <class Handler>
    void operator()(Handler&& handler, wait_request request) const {
        request.from = from->gate_on(asio::get_associated_executor(handler));
        if (resource* r = from->steal_for(request))
            return asio::post(asio::append(std::forward<Handler>(handler),
                                           boost::system::error_code(), lease_maker::of<T>(r)));
        start_acquire<T>{trace}(std::forward<Handler>(handler), request);
    }

    per_executor<T>* from;
    trace_context trace;
};

template <class T, class Executor>
asio::awaitable<lease<T>, Executor> await_acquire_at_home(per_executor<T>* from,
                                                          wait_request request,
                                                          trace_context trace) {
    Executor home = co_await asio::this_coro::executor;
    request.from = from->gate_on(home);
    if (resource* r = from->steal_for(request)) co_return lease_maker::of<T>(r);
    if (trace) {
        lease<T> got = co_await await_acquire_in<T, Executor>(trace, request);
        co_return got;
    }
    lease<T> got = co_await await_acquire<T, Executor>(
        request.from, request.timeout, request.deadline, request.site, request.terms, request.stop);
    co_return got;
}

/// Completes when several operations have ended. They end and are canceled on one strand.
template <class Handler, class Signature>
class gathering : public std::enable_shared_from_this<gathering<Handler, Signature>> {
public:
    gathering(Handler handler, std::size_t count)
        : handler_(std::move(handler)),
          work_(asio::get_associated_executor(handler_)),
          strand_(asio::make_strand(asio::get_associated_executor(handler_))),
          stop_(count),
          missing_(count) {
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) slot.template emplace<canceler>(canceler{this});
    }

    /// The handler of one operation.
    auto part(std::size_t number) {
        auto ended = [me = this->shared_from_this()](boost::system::error_code error,
                                                     std::size_t left = 0) {
            me->ended(error, left);
        };
        return asio::bind_cancellation_slot(stop_[number].slot(),
                                            asio::bind_executor(strand_, std::move(ended)));
    }

private:
    struct canceler {
        gathering* me;
        void operator()(asio::cancellation_type type) const {
            asio::dispatch(me->strand_, [all = me->shared_from_this(), type] {
                for (asio::cancellation_signal& s : all->stop_) s.emit(type);
            });
        }
    };

    void ended(boost::system::error_code error, std::size_t left) {
        if (!error_) error_ = error;
        left_ += left;
        if (--missing_ > 0) return;
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected()) slot.clear();
        if constexpr (std::same_as<Signature, void(boost::system::error_code)>)
            asio::post(asio::append(std::move(handler_), error_));
        else asio::post(asio::append(std::move(handler_), error_, left_));
        work_.reset();
    }

    using executor = asio::associated_executor_t<Handler>;

    Handler handler_;
    asio::executor_work_guard<executor> work_;
    asio::strand<executor> strand_;
    std::vector<asio::cancellation_signal> stop_;
    std::size_t missing_;
    boost::system::error_code error_;
    std::size_t left_ = 0;
};

template <class T, class Token>
struct acquire_at_home_with {
    static auto start(per_executor<T>* from, const wait_request& request, Token token) {
        return asio::async_initiate<Token, void(boost::system::error_code, lease<T>)>(
            start_acquire_at_home<T>{from, trace_in(request)}, token, request);
    }
};

template <class T, class Executor>
struct acquire_at_home_with<T, asio::use_awaitable_t<Executor>> {
    static auto start(per_executor<T>* from, const wait_request& request,
                      const asio::use_awaitable_t<Executor>&) {
        return await_acquire_at_home<T, Executor>(from, request, trace_in(request));
    }
};

}  // namespace cenote::detail

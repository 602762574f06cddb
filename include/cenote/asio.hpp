// Acquiring with Boost.Asio: co_acquire in its coroutines, async_acquire with any completion token.
// A wait needs no thread and no timer, and can be canceled.
#pragma once
#include <algorithm>
#include <boost/asio/async_result.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <source_location>
#include <utility>

#include "cenote/asio_connector.hpp"
#include "cenote/coroutine.hpp"
#include "cenote/detail/asio_wait.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/lease.hpp"
#include "cenote/options.hpp"
#include "cenote/pool.hpp"

namespace cenote {

/// The lease that a coroutine of Asio gets from co_acquire. Asio cannot throw the pool's exceptions
/// out of an await expression, so the first move of this object throws if there is no lease. That
/// move is part of the usual forms:
///
///     auto conn = co_await pool.co_acquire();
///     cenote::lease<session> next = co_await pool.co_acquire({.timeout = 50ms});
///
/// After that it is a lease<T> like any other.
template <class T>
class acquired : public lease<T> {
public:
    /// Made by Asio when a coroutine awaits.
    explicit acquired(awaited<T>& from) noexcept : from_(&from) {}
    // NOLINTNEXTLINE(performance-noexcept-move-constructor): see above
    acquired(acquired&& other) : lease<T>(other.take_out()) {}
    // NOLINTNEXTLINE(performance-noexcept-move-constructor)
    acquired& operator=(acquired&& other) {
        lease<T>::operator=(other.take_out());
        return *this;
    }
    ~acquired() = default;

private:
    lease<T> take_out() {
        if (from_ == nullptr) return std::move(*this);
        return typename awaited<T>::awaiter(*std::exchange(from_, nullptr)).await_resume();
    }

    awaited<T>* from_ = nullptr;
};

// The async_ members of pool, as documented in pool.hpp. They have in common:
//
// - They accept any completion token: use_awaitable, use_future, deferred, a handler.
// - The handler runs through its associated executor and allocator, and never inside the call that
//   starts the operation. With use_awaitable a ready resource is granted without a pass through the
//   executor's queue.
// - The handler's cancellation slot ends the wait with `canceled`. Terminal, partial and total
//   cancellation are equal here, because a wait has changed nothing.
// - The destructor of the pool refuses waiters with `closed`. Make the pool after its io_context,
//   so that the pool ends first: its threads post to the loop.
// - A hand-over allocates nothing if the handler's executor belongs to an io_context. A post to
//   another executor may allocate; if that fails, the process ends.

template <class T>
template <class Token, class Header>
auto pool<T>::async_acquire(Token&& token, std::source_location at) {
    return detail::async_acquire<T>(gate_->request_of(at), std::forward<Token>(token));
}

template <class T>
template <class Token, class Header>
auto pool<T>::async_acquire(const acquire_options& how, Token&& token, std::source_location at) {
    return detail::async_acquire<T>(gate_->request_of(how, at), std::forward<Token>(token));
}

template <class T>
template <class Token, class Header>
auto pool<T>::async_acquire_for(std::chrono::nanoseconds timeout, Token&& token,
                                std::source_location at) {
    return async_acquire({.timeout = timeout}, std::forward<Token>(token), at);
}

template <class T>
template <class Token, class Header>
auto pool<T>::async_acquire_until(std::chrono::steady_clock::time_point deadline, Token&& token,
                                  std::source_location at) {
    return async_acquire({.deadline = deadline}, std::forward<Token>(token), at);
}

template <class T>
template <class Token, class Header>
auto pool<T>::async_close(std::chrono::nanoseconds timeout, Token&& token) {
    auto at_most = std::max(timeout, std::chrono::nanoseconds{0});
    return boost::asio::async_initiate<Token, void(boost::system::error_code, std::size_t)>(
        detail::start_telling<detail::tell_left>{}, token,
        detail::wait_request{
            gate_, detail::wait_target::drained, at_most, detail::no_deadline, {}});
}

template <class T>
template <class Token, class Header>
auto pool<T>::async_wait_ready(std::chrono::nanoseconds timeout, Token&& token) {
    auto at_most = std::max(timeout, std::chrono::nanoseconds{0});
    return boost::asio::async_initiate<Token, void(boost::system::error_code)>(
        detail::start_telling<detail::tell_error>{}, token,
        detail::wait_request{gate_, detail::wait_target::ready, at_most, detail::no_deadline, {}});
}

template <class T>
template <class Token, class Header>
auto pool<T>::async_wait_ready(Token&& token) {
    return async_wait_ready(forever, std::forward<Token>(token));
}

}  // namespace cenote

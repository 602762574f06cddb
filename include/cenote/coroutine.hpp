// co_acquire: awaiting a lease in any coroutine, without a framework.
#pragma once
#include <chrono>
#include <concepts>
#include <coroutine>
#include <source_location>
#include <system_error>
#include <utility>

#include "cenote/detail/coroutine_waiter.hpp"
#include "cenote/detail/refuse.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/lease.hpp"
#include "cenote/pool.hpp"

namespace cenote {

/// Resumes coroutines: a callable that is called once for each suspension with the coroutine's
/// handle, and that resumes the handle on any thread, at any later time. It must not throw. If a
/// coroutine can be destroyed after its handle was passed and before it resumes, the resumer must
/// have `retract(handle)`, which forgets the handle.
///
/// The usual resumer puts the handle into the queue of an event loop. It is called on the thread
/// that ends the wait, often one that releases a resource, so it must be quick and thread-safe.
template <class R>
concept resumer = std::copy_constructible<R> && std::invocable<R&, std::coroutine_handle<>>;

/// What co_acquire returns: await it to get a lease<T>.
///
///     auto conn = co_await pool.co_acquire();
///     auto next = co_await pool.co_acquire({.timeout = 50ms, .stop = token}).resumed_by(my_loop);
///
/// The object is the waiter and lives in the coroutine's frame: a wait allocates no memory of its
/// own. The wait ends when it gets a lease or is refused, at the deadline, on a stop request, when
/// the pool closes, and when the coroutine is destroyed (see `resumer` for the restriction). The
/// await expression throws what pool::acquire throws, unless co_acquire was given an error code.
///
/// Coroutines of Boost.Asio can await it with <cenote/asio.hpp>; they are resumed on their
/// executor.
///
/// Await it once, in the same expression that creates it.
template <class T>
class [[nodiscard("it does nothing until it is awaited with co_await")]] awaited final
    : detail::coroutine_waiter {
public:
    /// Made by co_acquire.
    explicit awaited(const detail::wait_request& request,
                     std::error_code* error_to = nullptr) noexcept
        : coroutine_waiter(request, error_to) {}
    /// Move it only before awaiting it.
    awaited(awaited&&) noexcept = default;
    ~awaited() override {
        if (waiting()) leave();
    }

    /// Lets `how` resume the coroutine. Without it, the thread that ends the wait resumes the
    /// coroutine, for example a releasing thread. Pass a large resumer by std::ref, or capture a
    /// pointer in a lambda. Coroutines of Asio need no resumer.
    template <resumer R>
    [[nodiscard]] awaited&& resumed_by(R how) && {
        go_on_with(std::move(how));
        return std::move(*this);
    }

    class awaiter;
    /// For the coroutine that awaits it.
    awaiter operator co_await() && noexcept { return awaiter(*this); }

    /// Called by Asio for its own coroutines, with <cenote/asio.hpp>.
    template <class Token, class Start = typename detail::asio_start_for<T, Token>::type>
    auto operator()(Token&& token) && -> typename Start::result {
        return Start::with(std::forward<Token>(token), *this);
    }

    // No call selects these overloads, except one with a mistake: they explain it.

    template <class Token>
    auto operator()(Token&&) & {
        static_assert(detail::is_in_one_expression<Token>,
                      "cenote: await in one expression: co_await pool.co_acquire()");
    }
    CENOTE_REFUSE(
        awaited&& resumed_by(...) &,
        "cenote: await in one expression: co_await pool.co_acquire().resumed_by(resumer)");
    CENOTE_REFUSE(awaiter operator co_await() &,
                  "cenote: await in one expression: co_await pool.co_acquire()");

private:
    template <class, class>
    friend class detail::asio_wait;
};

/// Refers to the awaited object, because g++ would otherwise move it.
template <class T>
class awaited<T>::awaiter {
public:
    explicit awaiter(awaited& where) noexcept : where_(where) {}

    bool await_ready() noexcept { return where_.await_ready(); }
    bool await_suspend(std::coroutine_handle<> frame) { return where_.await_suspend(frame); }
    lease<T> await_resume() { return detail::lease_maker::of<T>(where_.take_out()); }

private:
    awaited& where_;
};

template <class T>
awaited<T> pool<T>::co_acquire(std::source_location at) {
    return awaited<T>(gate_->request_of(at));
}

template <class T>
awaited<T> pool<T>::co_acquire(const acquire_options& how, std::source_location at) {
    return awaited<T>(gate_->request_of(how, at));
}

template <class T>
awaited<T> pool<T>::co_acquire(const acquire_options& how, std::error_code& error,
                               std::source_location at) {
    return awaited<T>(gate_->request_of(how, at), &error);
}

template <class T>
awaited<T> pool<T>::co_acquire_for(std::chrono::nanoseconds timeout, std::source_location at) {
    return co_acquire({.timeout = timeout}, at);
}

template <class T>
awaited<T> pool<T>::co_acquire_until(std::chrono::steady_clock::time_point deadline,
                                     std::source_location at) {
    return co_acquire({.deadline = deadline}, at);
}

}  // namespace cenote

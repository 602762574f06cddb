// A lease for one request, acquired when first used and released at the end of the request.
#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <source_location>
#include <type_traits>
#include <utility>

#include "cenote/coroutine.hpp"
#include "cenote/lease.hpp"
#include "cenote/options.hpp"
#include "cenote/pool.hpp"

namespace cenote {

namespace scope_detail {

/// The part of request_scope that needs Boost.Asio; in <cenote/asio_request_scope.hpp>.
struct awaiting;

}  // namespace scope_detail

/// The lease of one request: acquires on first use, keeps one resource until the end, and releases
/// it however the request ends. (A cenote::database has its own: database::scope().)
///
///     return cenote::with_scope(pool, [&](cenote::request_scope<session>& s) {
///         if (in_cache(key)) return cached(key);    // acquires nothing
///         return s.get().fetch(key);                // the same session each time
///     });
///
/// If the request throws, with_scope() calls failed() with the exception: the connector's classify
/// decides what becomes of the resource, as with pool::with; without a classify it is discarded.
///
/// The pool must exist while the scope acquires. A lease may outlive it.
///
/// Thread safety: distinct scopes are independent. One scope belongs to one thread or coroutine at
/// a time.
template <class T>
class request_scope {
public:
    /// Acquires nothing yet. `how`: the options of each acquire.
    explicit request_scope(pool<T>& from, const acquire_options& how = {}) noexcept
        : from_(&from), how_(how) {}
    request_scope(request_scope&&) noexcept = default;
    request_scope& operator=(request_scope&&) noexcept = default;
    ~request_scope() = default;

    /// The resource; acquires it if there is none. Waits and throws like pool::acquire. `at`: the
    /// call site that reports of leases name.
    T& get(std::source_location at = std::source_location::current()) {
        if (!lease_) {
            take(from_->acquire(how_, at));
            detail::lease_maker::hold_here(lease_);
        }
        return *lease_;
    }

    class awaited_resource;
    /// get() for coroutines of any type: `T& it = co_await scope.co_get();`
    [[nodiscard]] awaited_resource co_get(
        std::source_location at = std::source_location::current()) {
        return awaited_resource(*this, at);
    }

    /// get() for Boost.Asio; include <cenote/asio_request_scope.hpp>. With use_awaitable it returns
    /// an awaitable of T*. Any other completion token gets (std::exception_ptr, T*). Do not move
    /// the scope until then.
    template <class Token>
    auto async_get(Token&& token, std::source_location at = std::source_location::current());

    /// Whether a resource has been acquired and not given back.
    bool has_resource() const noexcept { return static_cast<bool>(lease_); }

    /// Releases the resource now. A later get() acquires again.
    void give_back() noexcept { lease_.give_back(); }
    /// Releases the resource now, after an error of it. `otherwise`: the verdict if the connector
    /// has no classify. A request that uses several scopes calls it on the one that failed, and
    /// handles the exception.
    void failed(const std::exception_ptr& error, verdict otherwise = verdict::discard) noexcept {
        if (error == nullptr) give_back();
        else lease_.give_back(error, otherwise);
    }
    /// Discards the resource, and any acquired later, when released. It remains usable until then.
    void discard_at_end() noexcept {
        discards_ = true;
        lease_.discard_at_end();
    }
    /// Has the resource reset when released; see lease::mark_dirty. No effect without a resource.
    void mark_dirty() noexcept { lease_.mark_dirty(); }

private:
    friend struct scope_detail::awaiting;

    void take(lease<T> got) noexcept {
        lease_ = std::move(got);
        if (discards_) lease_.discard_at_end();
    }

    pool<T>* from_;
    acquire_options how_;
    lease<T> lease_;
    bool discards_ = false;
};

/// What co_get() returns. Await it once, at once.
template <class T>
class [[nodiscard]] request_scope<T>::awaited_resource {
public:
    awaited_resource(request_scope& of, std::source_location at)
        : of_(of), acquiring_(of.from_->co_acquire(of.how_, at)) {}

    bool await_ready() { return of_.lease_ || awaiter_.await_ready(); }
    bool await_suspend(std::coroutine_handle<> frame) { return awaiter_.await_suspend(frame); }
    T& await_resume() {
        if (!of_.lease_) of_.take(awaiter_.await_resume());
        return *of_.lease_;
    }

private:
    request_scope& of_;
    awaited<T> acquiring_;  // not awaited if there is a resource
    typename awaited<T>::awaiter awaiter_{acquiring_};
};

/// Calls `work` with a scope and returns its result. If `work` throws, calls failed() of the scope
/// with the exception and rethrows it.
template <class T, class Work>
std::invoke_result_t<Work, request_scope<T>&> with_scope(pool<T>& from, Work&& work,
                                                         const acquire_options& how = {}) {
    request_scope<T> scope(from, how);
    try {
        return std::invoke(std::forward<Work>(work), scope);
    } catch (...) {
        scope.failed(std::current_exception());
        throw;
    }
}

}  // namespace cenote

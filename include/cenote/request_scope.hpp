// A lease for a request, which is taken when it is first needed and judged by how the request ends.
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

/// What one request has of a pool: nothing before it is first used, then one resource until the
/// end. (A cenote::database has its own: database::scope().)
///
///     return cenote::with_scope(pool, [&](cenote::request_scope<session>& s) {
///         if (!wanted) return nothing();    // and nothing was taken
///         return s.get().query("…");        // the same session each time
///     });
///
/// Whatever becomes of the request, the resource is released. If the request throws, with_scope
/// passes the exception to `failed`, and the rule is that of pool::with: the connector's classify
/// decides; without one the resource is discarded.
///
/// Used by one thread or coroutine at a time. The pool must be there when something is taken.
template <class T>
class request_scope {
public:
    explicit request_scope(pool<T>& from, const acquire_options& how = {}) noexcept
        : from_(&from), how_(how) {}
    request_scope(request_scope&&) noexcept = default;
    request_scope& operator=(request_scope&&) noexcept = default;
    ~request_scope() = default;

    /// Its resource, acquired if there is none yet. Waits and throws like pool::acquire.
    T& get(std::source_location at = std::source_location::current()) {
        if (!held_) {
            take(from_->acquire(how_, at));
            detail::lease_maker::hold_here(held_);
        }
        return *held_;
    }

    class awaited_resource;
    /// The same for coroutines of any type: `T& it = co_await scope.co_get();`
    [[nodiscard]] awaited_resource co_get(
        std::source_location at = std::source_location::current()) {
        return awaited_resource(*this, at);
    }

    /// The same for Boost.Asio, with <cenote/asio_request_scope.hpp>: awaited, or with a completion
    /// token, it gives a pointer to the resource. Handlers are given (std::exception_ptr, T*). The
    /// scope stays where it is until then.
    template <class Token>
    auto async_get(Token&& token, std::source_location at = std::source_location::current());

    /// Whether it has one at present. Takes none.
    bool has_resource() const noexcept { return static_cast<bool>(held_); }

    /// Gives it back before the end. What is used after that takes another.
    void give_back() noexcept { held_.give_back(); }
    /// The same, because of an error, which is taken for one of this resource: whoever asks several
    /// servers and knows whose error it is tells the right scope, where it happens.
    /// `otherwise`: the verdict if the connector has no classify.
    void failed(const std::exception_ptr& error, verdict otherwise = verdict::discard) noexcept {
        if (error == nullptr) give_back();
        else held_.give_back(error, otherwise);
    }
    /// Its resource, and any that it may get, is closed at the end instead of kept. It can be used
    /// until then.
    void discard_at_end() noexcept {
        discards_ = true;
        held_.discard_at_end();
    }
    void mark_dirty() noexcept { held_.mark_dirty(); }

private:
    friend struct scope_detail::awaiting;

    void take(lease<T> got) noexcept {
        held_ = std::move(got);
        if (discards_) held_.discard_at_end();
    }

    pool<T>* from_;
    acquire_options how_;
    lease<T> held_;
    bool discards_ = false;
};

template <class T>
class [[nodiscard]] request_scope<T>::awaited_resource {
public:
    awaited_resource(request_scope& of, std::source_location at)
        : of_(of), asked_(of.from_->co_acquire(of.how_, at)) {}

    bool await_ready() { return of_.held_ || acquire_.await_ready(); }
    bool await_suspend(std::coroutine_handle<> frame) { return acquire_.await_suspend(frame); }
    T& await_resume() {
        if (!of_.held_) of_.take(acquire_.await_resume());
        return *of_.held_;
    }

private:
    request_scope& of_;
    awaited<T> asked_;  // not awaited if it has one
    typename awaited<T>::awaiter acquire_{asked_};
};

/// Calls `work` with a scope, and returns what it returns. If it throws, the scope is told.
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

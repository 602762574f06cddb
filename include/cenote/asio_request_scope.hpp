// Request scopes for Boost.Asio: async_get(), and async_with_scope() for handlers that are
// coroutines.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#include "cenote/asio.hpp"
#include "cenote/request_scope.hpp"

namespace cenote {

namespace scope_detail {

/// Acquires the resource of a scope. A class, to be a friend of request_scope.
struct awaiting {
    template <class T>
    static boost::asio::awaitable<T*> resource_in(request_scope<T>* of, std::source_location at) {
        if (!of->lease_) {
            lease<T> got =
                co_await of->from_->async_acquire(of->how_, boost::asio::use_awaitable, at);
            of->take(std::move(got));
        }
        co_return of->lease_.get();
    }
};

/// Runs `work`, and reports its exception to the scope.
template <class Result, class T>
boost::asio::awaitable<Result> run(
    std::shared_ptr<request_scope<T>> in,
    std::function<boost::asio::awaitable<Result>(request_scope<T>&)> work) {
    try {
        co_return co_await work(*in);
    } catch (...) {
        in->failed(std::current_exception());
        throw;
    }
}

}  // namespace scope_detail

/// See request_scope. The handler runs on its associated executor, which also runs the acquire. The
/// scope, and the pool behind it, must live until the handler was called. Throws and refuses like
/// pool::async_acquire; the handler of a token gets the exception as a std::exception_ptr.
template <class T>
template <class Token>
auto request_scope<T>::async_get(Token&& token, std::source_location at) {
    namespace asio = boost::asio;
    asio::awaitable<T*> work = scope_detail::awaiting::resource_in(this, at);
    if constexpr (std::is_same_v<std::decay_t<Token>, asio::use_awaitable_t<>>) {
        return work;
    } else {
        auto start = [](auto handler, asio::awaitable<T*> w) {
            auto where = asio::get_associated_executor(handler);
            asio::co_spawn(where, std::move(w), std::move(handler));
        };
        return asio::async_initiate<Token, void(std::exception_ptr, T*)>(start, token,
                                                                         std::move(work));
    }
}

/// with_scope() for coroutines of Boost.Asio: `work(scope)` returns an awaitable, and so does this
/// function, with the same result. `work` is copied or moved, and destroyed after its coroutine.
///
///     co_await cenote::async_with_scope(pool, work);
///
/// The lease ends when the coroutine of `work` has ended, also if it was canceled or destroyed. An
/// exception of `work` goes to the scope's failed() first.
///
/// With g++ 12 pass a named function object, or one that captures by reference only: that compiler
/// destroys the captures of a temporary lambda twice. Others do not compile.
///
/// Waits: no thread. Throws what `work` throws, and like pool::acquire in the scope's async_get().
template <class T, class Work>
auto async_with_scope(pool<T>& from, Work&& work, const acquire_options& how = {}) {
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
    static_assert(std::is_lvalue_reference_v<Work> || std::is_trivially_destructible_v<Work>,
                  "cenote: g++ 12 would destroy the captures of this lambda twice; pass a named "
                  "function object, or capture by reference");
#endif
    using type = std::decay_t<Work>;
    using result = typename std::invoke_result_t<type&, request_scope<T>&>::value_type;
    auto kept = std::make_shared<type>(std::forward<Work>(work));
    std::function<boost::asio::awaitable<result>(request_scope<T>&)> once =
        [kept](request_scope<T>& s) { return (*kept)(s); };
    return scope_detail::run<result, T>(std::make_shared<request_scope<T>>(from, how),
                                        std::move(once));
}

}  // namespace cenote

// Asynchronous connectors: members that return awaitables of Boost.Asio and run on an executor.
#pragma once
#include <boost/asio/awaitable.hpp>
#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "cenote/connector.hpp"
#include "cenote/detail/async_connector.hpp"
#include "cenote/options.hpp"
#include "cenote/pool.hpp"

namespace cenote {

/// A connector whose open() (or the callable itself) returns boost::asio::awaitable<T>:
///
///     struct my_connector {
///         boost::asio::awaitable<session> open();
///         boost::asio::awaitable<bool> probe(session&);     // or awaitable<void>
///         boost::asio::awaitable<void> reset(session&);     // or awaitable<bool>
///         boost::asio::awaitable<void> close(session&);
///         bool before_acquire(session&) noexcept;           // these three must not block
///         bool before_release(session&);                    // or verdict
///         cenote::verdict classify(std::exception_ptr) const;
///         cenote::verdict classify_open(std::exception_ptr) const;
///         void forsake(session&);
///     };
///     cenote::pool<session> pool{io_context, my_connector{}, {.max = 32}};
///
/// The members mean what they mean in a blocking connector (connector.hpp). probe, reset and close
/// may also return bool or nothing if they do not block. Each call is a coroutine on the pool's
/// executor, on a strand of its own. The pool cancels a call that exceeds its timeout (terminal
/// cancellation), and closes a resource that the call opens nevertheless.
template <class C, class T>
concept asynchronous_connector = requires(C& c) {
    requires detail::open_outcome<C>::is_awaited;
    requires std::convertible_to<typename detail::open_outcome<C>::type, T>;
};

}  // namespace cenote

namespace cenote::detail {

template <class T, class C>
    requires asynchronous_connector<C, T>
struct connector_maker<T, C> {
    template <class From>
    static std::unique_ptr<any_connector> make(From&& c) {
        return make_async<T>(std::forward<From>(c));
    }
};

/// The constructor of a pool on an executor.
template <class T, class Where, class C>
struct needs_include_cenote_asio_hpp<T, Where, C> {
    static gate* open(Where& where, C&& connector, const options& settings) {
        constexpr bool fits = asynchronous_connector<std::decay_t<C>, T>;
        static_assert(fits,
                      "cenote: on an executor the connector's open() (or the callable itself) must "
                      "return boost::asio::awaitable of the pool's resource type; one that blocks "
                      "needs no executor");
        if constexpr (fits)
            return open_on(executor_of(where), make_async<T>(std::forward<C>(connector)), settings);
        else return nullptr;
    }
};

}  // namespace cenote::detail

namespace cenote {

template <class Where, class C>
    requires(!std::convertible_to<C, options>)
pool(Where&&, C) -> pool<std::remove_cvref_t<typename detail::open_outcome<C>::type>>;
template <class Where, class C>
pool(Where&&, C, options) -> pool<std::remove_cvref_t<typename detail::open_outcome<C>::type>>;

}  // namespace cenote

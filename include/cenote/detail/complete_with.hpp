// Runs an awaitable for a completion token.
#pragma once

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <type_traits>
#include <utility>

namespace cenote::sql::detail {

template <class T>
struct completion {
    using signature = void(std::exception_ptr, T);
};
template <>
struct completion<void> {
    using signature = void(std::exception_ptr);
};

/// Runs an awaitable and completes a token with its result or exception. With use_awaitable it is
/// the awaitable itself.
template <class T, class Token>
auto complete_with(boost::asio::awaitable<T> work, Token&& token) {
    if constexpr (std::is_same_v<std::decay_t<Token>, boost::asio::use_awaitable_t<>>) {
        return work;
    } else {
        auto start = [](auto handler, boost::asio::awaitable<T> w) {
            auto where = boost::asio::get_associated_executor(handler);
            boost::asio::co_spawn(where, std::move(w), std::move(handler));
        };
        return boost::asio::async_initiate<Token, typename completion<T>::signature>(
            start, token, std::move(work));
    }
}

}  // namespace cenote::sql::detail

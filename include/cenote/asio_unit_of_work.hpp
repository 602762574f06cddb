// unit_of_work on an executor: units are made, rolled back and cleared by coroutines.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include "cenote/asio_connector.hpp"
#include "cenote/unit_of_work.hpp"

namespace cenote {

/// A function of a unit: a callable that takes a T& and returns an awaitable of bool or void, or
/// bool or void directly. False or an exception means failure.
template <class T>
class async_unit_hook {
    template <class Answer>
    using outcome = detail::outcome_of<Answer>;

public:
    /// Whether a hook may return this type.
    template <class Answer>
    static constexpr bool understands = detail::bool_or_nothing<typename outcome<Answer>::type>;

    /// No function.
    async_unit_hook() = default;

    /// `call` may be a coroutine, or return bool or nothing at once.
    template <class F>
        requires(!std::same_as<F, async_unit_hook> && std::invocable<F&, T&>)
    async_unit_hook(F call) {  // not explicit: for designated initializers
        using answer = std::invoke_result_t<F&, T&>;
        static_assert(understands<answer>,
                      "cenote: a hook of async_unit_of_work must return bool or nothing, or an "
                      "awaitable of it");
        std::function<answer(T&)> hook(std::move(call));
        if (hook == nullptr) return;
        call_ = [hook = std::move(hook)](T& unit) -> boost::asio::awaitable<bool> {
            if constexpr (!outcome<answer>::is_awaited)
                return said(detail::says_yes([&]() -> decltype(auto) { return hook(unit); }));
            else if constexpr (std::is_void_v<typename outcome<answer>::type>)
                return ended(hook(unit));
            else return hook(unit);
        };
    }

    /// Whether there is a function.
    explicit operator bool() const noexcept { return call_ != nullptr; }

    /// True if there is no function.
    boost::asio::awaitable<bool> operator()(T& unit) const {
        return call_ == nullptr ? said(true) : call_(unit);
    }

private:
    static boost::asio::awaitable<bool> said(bool yes) { co_return yes; }
    static boost::asio::awaitable<bool> ended(boost::asio::awaitable<void> call) {
        co_await std::move(call);
        co_return true;
    }

    std::function<boost::asio::awaitable<bool>(T&)> call_;
};

/// unit_hooks whose functions may be coroutines.
template <class T>
using async_unit_hooks = unit_hooks<T, async_unit_hook<T>>;

/// unit_of_work for a pool on an executor: `make`, rollback, clear and probe are coroutines there.
///
///     cenote::pool<session> units{
///         io_context, cenote::async_unit_of_work<session>{open_session}, {.max = 8}};
///
/// It does what unit_of_work does, except that the hooks run on the executor instead of a thread of
/// the pool, so they must not block. The pool cancels a hook that exceeds its timeout.
template <class T>
class async_unit_of_work
    : public detail::unit_connector<T, boost::asio::awaitable<T>, async_unit_hook<T>> {
    using base = detail::unit_connector<T, boost::asio::awaitable<T>, async_unit_hook<T>>;

public:
    /// Throws what unit_of_work's constructor throws.
    explicit async_unit_of_work(std::function<boost::asio::awaitable<T>()> make,
                                async_unit_hooks<T> hooks = {})
        : base(std::move(make), std::move(hooks)) {}

    /// The members of a connector, for the pool.
    boost::asio::awaitable<T> open() const { return this->make_(); }
    /// Rolls back, then clears. False if that fails or the unit is broken.
    boost::asio::awaitable<bool> reset(T& unit) const {
        bool rolled_back = co_await this->hooks_.rollback(unit);
        if (!rolled_back) co_return false;
        bool cleared = co_await this->hooks_.clear(unit);
        co_return cleared && !this->is_broken(unit);
    }
    /// What the hook `probe` answers.
    boost::asio::awaitable<bool> probe(T& unit) const { return this->hooks_.probe(unit); }
};

template <class Make>
async_unit_of_work(Make)
    -> async_unit_of_work<typename detail::outcome_of<std::invoke_result_t<Make&>>::type>;
template <class Make>
async_unit_of_work(Make,
                   async_unit_hooks<typename detail::outcome_of<std::invoke_result_t<Make&>>::type>)
    -> async_unit_of_work<typename detail::outcome_of<std::invoke_result_t<Make&>>::type>;

}  // namespace cenote

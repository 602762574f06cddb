// Wraps a connector of coroutines behind the interface that the compiled library calls.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution_context.hpp>
#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

#include "cenote/detail/connector_of.hpp"
#include "cenote/detail/gate.hpp"
#include "cenote/detail/verbs.hpp"
#include "cenote/options.hpp"

namespace cenote::detail {

/// The result of a call; for an awaitable, the result of awaiting it.
template <class R>
struct outcome_of {
    using type = R;
    static constexpr bool is_awaited = false;
};
template <class R>
struct outcome_of<boost::asio::awaitable<R>> {
    using type = R;
    static constexpr bool is_awaited = true;
};

template <class C>
using open_outcome = outcome_of<decltype(call_open(std::declval<C&>()))>;

namespace asio = boost::asio;

/// The interface through which the compiled library calls it. Parameters are pointers because g++
/// 12 mishandles some reference parameters of coroutines.
class async_connector : public any_connector {
public:
    virtual asio::awaitable<std::unique_ptr<resource>> open() = 0;
    virtual asio::awaitable<bool> probe(resource* r) = 0;
    virtual asio::awaitable<bool> reset(resource* r) = 0;
    virtual asio::awaitable<bool> close(resource* r) = 0;
};

template <class T, class C>
class async_connector_of final : public connector_base<T, C, async_connector, outcome_of> {
    using base = connector_base<T, C, async_connector, outcome_of>;
    using can = typename base::can;

public:
    using base::base;

    asio::awaitable<std::unique_ptr<resource>> open() override {
        T opened = co_await call_open(this->connector_);
        co_return std::make_unique<resource_of<T>>([&]() -> T { return std::move(opened); });
    }

    asio::awaitable<bool> probe(resource* r) override {
        if constexpr (can::probe)
            return says_yes_at_last(
                [this, r] { return verbs_in(this->connector_).probe(this->value_of(*r)); });
        else return at_once();
    }

    asio::awaitable<bool> reset(resource* r) override {
        if constexpr (can::reset)
            return says_yes_at_last(
                [this, r] { return verbs_in(this->connector_).reset(this->value_of(*r)); });
        else return at_once();
    }

    asio::awaitable<bool> close(resource* r) override {
        if constexpr (can::close)
            return ends([this, r] { return verbs_in(this->connector_).close(this->value_of(*r)); });
        else return at_once();
    }

private:
    static asio::awaitable<bool> at_once() { co_return true; }

    template <class Call>
    static asio::awaitable<bool> says_yes_at_last(Call call) {
        using outcome = outcome_of<std::invoke_result_t<Call>>;
        if constexpr (!outcome::is_awaited) {
            co_return says_yes(call);
        } else if constexpr (std::is_void_v<typename outcome::type>) {
            co_await call();
            co_return true;
        } else {
            bool yes = co_await call();
            co_return yes;
        }
    }

    /// Ignores the result.
    template <class Call>
    static asio::awaitable<bool> ends(Call call) {
        if constexpr (outcome_of<std::invoke_result_t<Call>>::is_awaited)
            static_cast<void>(co_await call());
        else static_cast<void>(call());
        co_return true;
    }
};

template <class T, class C>
std::unique_ptr<async_connector> make_async(C&& c) {
    using type = std::decay_t<C>;
    verbs_of<has_verbs<type>, T, outcome_of>::must_fit();
    return std::make_unique<async_connector_of<T, type>>(std::forward<C>(c));
}

/// The executor of a context, or the executor itself.
template <class Where>
asio::any_io_executor executor_of(Where& where) {
    if constexpr (std::derived_from<Where, asio::execution_context>) {
        return where.get_executor();
    } else {
        static_assert(std::convertible_to<Where, asio::any_io_executor>,
                      "cenote: an asynchronous pool needs an executor or an execution context");
        return where;
    }
}

/// gate::open for asynchronous connectors. In the library cenote::asio.
gate* open_on(const asio::any_io_executor& where, std::unique_ptr<async_connector> connector,
              const options& settings);

}  // namespace cenote::detail

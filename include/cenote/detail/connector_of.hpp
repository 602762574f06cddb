// Wraps a connector of any type behind the interface that the compiled library calls, and refuses
// members that the pool would never call.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "cenote/detail/any_connector.hpp"
#include "cenote/detail/resource.hpp"
#include "cenote/detail/verbs.hpp"
#include "cenote/verdict.hpp"

namespace cenote::detail {

template <class C>
constexpr bool has_open = requires(has_verbs<C>& c) { c.open(); };

template <class C>
concept opens = has_open<C> || requires(has_verbs<C>& c) { c(); };

template <opens C>
decltype(auto) call_open(C& c) {
    if constexpr (has_open<C>) return verbs_in(c).open();
    else return verbs_in(c)();
}

/// The type that a connector opens.
template <class C>
using opened_by = std::remove_cvref_t<decltype(call_open(std::declval<C&>()))>;

/// Only bool or void. With an int or an error code, zero (success) would be read as false.
template <class R, template <class> class Outcome = std::type_identity>
concept bool_or_nothing = std::is_void_v<typename Outcome<R>::type> ||
                          std::same_as<std::remove_cvref_t<typename Outcome<R>::type>, bool>;

/// The result of a call that returns bool; true if it returns nothing.
template <class Call>
bool says_yes(Call&& call) {
    if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
        std::forward<Call>(call)();
        return true;
    } else {
        return std::forward<Call>(call)();
    }
}

/// What before_release may return.
template <class R>
concept release_answer = bool_or_nothing<R> || std::same_as<std::remove_cvref_t<R>, verdict>;

template <class Call>
verdict judged_by(Call&& call) {
    if constexpr (bool_or_nothing<std::invoke_result_t<Call>>)
        return says_yes(std::forward<Call>(call)) ? verdict::keep : verdict::discard;
    else return std::forward<Call>(call)();
}

/// Which of the optional members a connector has. `Outcome` maps the return type of a call to its
/// result, for connectors that return awaitables.
template <class C, class T, template <class> class Outcome = std::type_identity>
struct verbs_of {
    static constexpr bool probe = requires(C& c, T& t) {
        { c.probe(t) } -> bool_or_nothing<Outcome>;
    };
    static constexpr bool can_probe = requires(const C& c) {
        { c.can_probe() } noexcept -> std::same_as<bool>;
    };
    static constexpr bool reset = requires(C& c, T& t) {
        { c.reset(t) } -> bool_or_nothing<Outcome>;
    };
    static constexpr bool close = requires(C& c, T& t) { c.close(t); };
    static constexpr bool before_acquire = requires(C& c, T& t) {
        { c.before_acquire(t) } -> bool_or_nothing;
    };
    /// noexcept is a promise not to block.
    static constexpr bool before_acquire_is_quick = requires(C& c, T& t) {
        { c.before_acquire(t) } noexcept -> bool_or_nothing;
    };
    static constexpr bool before_release = requires(C& c, T& t) {
        { c.before_release(t) } -> release_answer;
    };
    static constexpr bool forsake = requires(C& c, T& t) {
        { c.forsake(t) } -> std::same_as<void>;
    };
    static constexpr bool endpoint = requires(const C& c) {
        { c.endpoint() } -> std::convertible_to<std::string>;
    };
    static constexpr bool classify = requires(const C& c, const std::exception_ptr& e) {
        { c.classify(e) } -> std::same_as<verdict>;
    };
    static constexpr bool classify_open = requires(const C& c, const std::exception_ptr& e) {
        { c.classify_open(e) } -> std::same_as<verdict>;
    };

    /// Refuses a member with a known name and a wrong signature, which would never be called.
    /// Overloaded members cannot be checked.
    static constexpr void must_fit() {
        must_have_known_names();
        static_assert(
            probe || !requires { &C::probe; },
            "cenote: the connector's probe must accept a T& and return bool or nothing");
        static_assert(
            can_probe || !requires { &C::can_probe; },
            "cenote: the connector's can_probe must be const, noexcept and return bool");
        static_assert(
            reset || !requires { &C::reset; },
            "cenote: the connector's reset must accept a T& and return bool or nothing");
        static_assert(
            close || !requires { &C::close; }, "cenote: the connector's close must accept a T&");
        static_assert(
            before_acquire || !requires { &C::before_acquire; },
            "cenote: the connector's before_acquire must accept a T& and return bool or nothing");
        static_assert(
            before_release || !requires { &C::before_release; },
            "cenote: the connector's before_release must accept a T& and return bool, "
            "cenote::verdict or nothing");
        static_assert(
            classify || !requires { &C::classify; },
            "cenote: the connector's classify must be const, accept a std::exception_ptr and "
            "return cenote::verdict");
        static_assert(
            classify_open || !requires { &C::classify_open; },
            "cenote: the connector's classify_open must be const, accept a std::exception_ptr and "
            "return cenote::verdict");
        static_assert(
            forsake || !requires { &C::forsake; },
            "cenote: the connector's forsake must accept a T& and return nothing, at once");
    }

private:
    /// Refuses names that other pools use, and misspelt ones, which would never be called.
    static constexpr void must_have_known_names() {
#define CENOTE_OTHER_NAME(verb, name)                                                      \
    static_assert((verb) || !requires(C& c, T& t) { c.name(t); },                          \
                  "cenote: the pool never calls the connector's " #name ": name it " #verb \
                  ", or make it private")
        CENOTE_OTHER_NAME(probe, is_alive);
        CENOTE_OTHER_NAME(probe, isAlive);
        CENOTE_OTHER_NAME(probe, is_valid);
        CENOTE_OTHER_NAME(probe, isValid);
        CENOTE_OTHER_NAME(probe, is_healthy);
        CENOTE_OTHER_NAME(probe, validate);
        CENOTE_OTHER_NAME(probe, ping);
        CENOTE_OTHER_NAME(probe, health_check);
        CENOTE_OTHER_NAME(probe, prob);
        CENOTE_OTHER_NAME(probe, prope);
        CENOTE_OTHER_NAME(probe, Probe);
        CENOTE_OTHER_NAME(reset, Reset);
        CENOTE_OTHER_NAME(reset, resset);
        CENOTE_OTHER_NAME(reset, rest);
        CENOTE_OTHER_NAME(reset, recycle);
        CENOTE_OTHER_NAME(reset, cleanup);
        CENOTE_OTHER_NAME(reset, clean_up);
        CENOTE_OTHER_NAME(close, Close);
        CENOTE_OTHER_NAME(close, clos);
        CENOTE_OTHER_NAME(close, disconnect);
        CENOTE_OTHER_NAME(close, destroy);
        CENOTE_OTHER_NAME(close, dispose);
        CENOTE_OTHER_NAME(before_acquire, before_aquire);
        CENOTE_OTHER_NAME(before_acquire, before_acqiure);
        CENOTE_OTHER_NAME(before_acquire, beforeAcquire);
        CENOTE_OTHER_NAME(before_acquire, on_acquire);
        CENOTE_OTHER_NAME(before_acquire, before_borrow);
        CENOTE_OTHER_NAME(before_release, before_relase);
        CENOTE_OTHER_NAME(before_release, before_realease);
        CENOTE_OTHER_NAME(before_release, beforeRelease);
        CENOTE_OTHER_NAME(before_release, on_release);
        CENOTE_OTHER_NAME(before_release, before_return);
        CENOTE_OTHER_NAME(forsake, forsak);
        CENOTE_OTHER_NAME(forsake, forsakes);
        CENOTE_OTHER_NAME(forsake, Forsake);
#undef CENOTE_OTHER_NAME
    }
};

/// The calls that blocking and asynchronous connectors have in common.
template <class T, class C, class Kind, template <class> class Outcome>
class connector_base : public Kind {
public:
    explicit connector_base(C connector) : connector_(std::move(connector)) {
        if constexpr (is_shared_pointer<C>)
            if (connector_ == nullptr)
                throw std::invalid_argument("cenote: the connector is a null pointer");
    }

    connector_abilities abilities() const noexcept override {
        return {.probe = can::probe && may_probe(),
                .reset = can::reset,
                .before_acquire = can::before_acquire,
                .before_acquire_is_quick = can::before_acquire_is_quick,
                .before_release = can::before_release,
                .classify = can::classify,
                .blocks = std::derived_from<Kind, blocking_connector>};
    }

    bool before_acquire(resource& r) override {
        if constexpr (can::before_acquire)
            return says_yes([&]() -> decltype(auto) {
                return verbs_in(connector_).before_acquire(value_of(r));
            });
        else return static_cast<void>(r), true;
    }

    verdict before_release(resource& r) override {
        if constexpr (can::before_release)
            return judged_by([&]() -> decltype(auto) {
                return verbs_in(connector_).before_release(value_of(r));
            });
        else return static_cast<void>(r), verdict::keep;
    }

    verdict classify(const std::exception_ptr& error) const noexcept override {
        if constexpr (can::classify) {
            try {
                return verbs_in(connector_).classify(error);
            } catch (...) {
                return verdict::discard;
            }
        } else {
            return static_cast<void>(error), verdict::discard;
        }
    }

    verdict classify_open(const std::exception_ptr& error) const noexcept override {
        if constexpr (can::classify_open) {
            try {
                return verbs_in(connector_).classify_open(error);
            } catch (...) {
                return verdict::discard;
            }
        } else {
            return classify(error);
        }
    }

    std::string endpoint() const override {
        if constexpr (can::endpoint) return verbs_in(connector_).endpoint();
        else return {};
    }

    void forsake(resource& r) noexcept override {
        if constexpr (can::forsake) {
            try {
                verbs_in(connector_).forsake(value_of(r));
            } catch (...) {
                return;  // the pool forgets the resource in any case
            }
        } else {
            static_cast<void>(r);
        }
    }

protected:
    using can = verbs_of<has_verbs<C>, T, Outcome>;

    bool may_probe() const noexcept {
        if constexpr (can::can_probe) return verbs_in(connector_).can_probe();
        else return true;
    }

    static T& value_of(resource& r) { return static_cast<resource_of<T>&>(r).value; }

    C connector_;
};

template <class T, class C>
class connector_of final : public connector_base<T, C, blocking_connector, std::type_identity> {
    using base = connector_base<T, C, blocking_connector, std::type_identity>;
    using can = typename base::can;

public:
    using base::base;

    std::unique_ptr<resource> open() override {
        return std::make_unique<resource_of<T>>(
            [this]() -> T { return call_open(this->connector_); });
    }

    bool probe(resource& r) override {
        if constexpr (can::probe)
            return says_yes([&]() -> decltype(auto) {
                return verbs_in(this->connector_).probe(this->value_of(r));
            });
        else return static_cast<void>(r), true;
    }

    bool reset(resource& r) override {
        if constexpr (can::reset)
            return says_yes([&]() -> decltype(auto) {
                return verbs_in(this->connector_).reset(this->value_of(r));
            });
        else return static_cast<void>(r), true;
    }

    void close(resource& r) override {
        if constexpr (can::close)
            static_cast<void>(verbs_in(this->connector_).close(this->value_of(r)));
        else static_cast<void>(r);
    }
};

}  // namespace cenote::detail

// What a connector is: it opens resources, and can probe, reset and close them.
#pragma once

#include <concepts>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "cenote/detail/any_connector.hpp"
#include "cenote/detail/resource.hpp"

namespace cenote::detail {

template <class C>
constexpr bool is_shared_pointer = false;
template <class I>
constexpr bool is_shared_pointer<std::shared_ptr<I>> = true;

/// The object whose members are called: the connector, or what it points to.
template <class C>
auto& verbs_in(C& c) {
    if constexpr (is_shared_pointer<std::remove_const_t<C>>) return *c;
    else return c;
}
template <class C>
using has_verbs = std::remove_reference_t<decltype(verbs_in(std::declval<C&>()))>;

}  // namespace cenote::detail

namespace cenote {

/// A connector opens resources of type T. Any callable that returns a T is a connector, and so is
/// any object with `open()`. All other members are optional:
///
///     struct my_connector {
///         session open();                      // throws if it cannot open
///         bool probe(session&);                // health check: false or an exception retires it
///         void reset(session&);                // cleans it for the next user; throws if it cannot
///         void close(session&);                // polite end; the destructor follows
///         bool before_acquire(session&);       // false or an exception: retire it, lend another
///         bool before_release(session&);       // or verdict; false or an exception: retire it
///         verdict classify(std::exception_ptr) const;       // an exception of pool::with
///         verdict classify_open(std::exception_ptr) const;  // an exception of open
///         void forsake(session&);              // in the child of a fork
///         bool can_probe() const noexcept;     // false: as if there were no probe
///     };
///
/// `probe`, `reset`, `before_acquire` and `before_release` return bool or nothing; reset may return
/// false instead of throwing. A member with one of these names that cannot be called like this does
/// not compile, nor does a member that other pools call for the same purpose (`is_alive`,
/// `validate`, …), because the pool would never call it.
///
/// **Where they run.** open, probe, reset and close may block. They run on the pool's own threads,
/// each under its timeout (options::open_timeout, …), never two at a time on one resource.
/// before_acquire and before_release run at each lease on the thread of the borrower, so they must
/// be quick: a look at a socket, not a round trip. For a coroutine, before_acquire runs on a thread
/// of the pool (or on its executor, see asio_connector.hpp), and the coroutine is resumed after it.
/// If before_acquire is noexcept, it runs directly where the coroutine gets the resource, which can
/// be an event loop.
///
/// **before_release** may return a verdict. `keep` is like true (a resource that was marked dirty
/// stays dirty); `reset` is like lease::mark_dirty(); `discard` and `final` are like false;
/// `suspect` is like lease::discard_and_suspect().
///
/// **reset_later** is for resources that their next use can reset at almost no cost: a session that
/// sends its reset together with the next request. The resource becomes idle and owes a reset. Its
/// next lease must make the reset before anything else. If no lease comes, the pool calls `reset`
/// when the resource has been idle for options::reset_after, before a probe, and when the pool is
/// paused. `keep` cancels the debt. Requires a `reset`; without one the resource is retired, and
/// observers are told why.
///
/// **classify_open** says which errors of open are `final`: then callers are refused at once
/// instead of at their deadline. All other verdicts mean that the pool tries again. Without
/// classify_open the pool asks classify. See options::open_errors.
///
/// **can_probe** is for connectors whose ability depends on how they were made. The answer must not
/// change.
///
/// **forsake** closes the descriptor and does nothing else. After fork() the resources belong to
/// the parent, so the pool of the child starts empty and calls neither the other members nor T's
/// destructor: these could write to a connection that the parent still uses. forsake runs once for
/// each resource, on the thread that first uses the pool in the child or that ends the lease.
/// Without forsake the child's descriptors stay open. If a connector or an observer calls fork(),
/// its child must not return from that call: it may exec or _exit.
///
/// A std::shared_ptr to an object with these members is a connector, too; see connector_interface.
///
/// Thread safety: the pool calls a connector from several threads at once, each time for another
/// resource.
template <class C, class T>
concept connector = requires(detail::has_verbs<C>& c) {
    { c.open() } -> std::convertible_to<T>;
} || requires(detail::has_verbs<C>& c) {
    { c() } -> std::convertible_to<T>;
};

/// A base class for connectors that are chosen at run time.
///
///     std::shared_ptr<cenote::connector_interface<session>> connect = choose(config);
///     cenote::pool<session> pool{connect};
///
/// The members are those of the concept `connector`. before_acquire and before_release are not
/// among them, because a pool calls them at each lease.
template <class T>
class connector_interface {
public:
    virtual ~connector_interface() = default;
    virtual T open() = 0;
    /// A class that overrides probe() must override this to return true.
    virtual bool can_probe() const noexcept { return false; }
    virtual bool probe(T&) { return true; }
    /// False: the pool closes the resource.
    virtual bool reset(T&) { return false; }
    virtual void close(T&) {}
    virtual verdict classify(const std::exception_ptr&) const { return verdict::discard; }
    virtual verdict classify_open(const std::exception_ptr& error) const { return classify(error); }
    virtual void forsake(T&) {}

protected:
    connector_interface() = default;
    connector_interface(const connector_interface&) = default;
    connector_interface& operator=(const connector_interface&) = default;
};

namespace detail {

template <class C>
constexpr bool has_open = requires(has_verbs<C>& c) { c.open(); };

template <class C>
decltype(auto) call_open(C& c) {
    if constexpr (has_open<C>) return verbs_in(c).open();
    else return verbs_in(c)();
}

/// The type that a connector opens.
template <class C>
using opened_by = std::remove_cvref_t<decltype(call_open(std::declval<C&>()))>;

/// Exactly bool or void: an int or a std::error_code, whose zero means success, would be taken for
/// false.
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
concept judgement = bool_or_nothing<R> || std::same_as<std::remove_cvref_t<R>, verdict>;

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
    /// noexcept is taken as the promise not to wait.
    static constexpr bool before_acquire_is_quick = requires(C& c, T& t) {
        { c.before_acquire(t) } noexcept -> bool_or_nothing;
    };
    static constexpr bool before_release = requires(C& c, T& t) {
        { c.before_release(t) } -> judgement;
    };
    static constexpr bool forsake = requires(C& c, T& t) {
        { c.forsake(t) } -> std::same_as<void>;
    };
    static constexpr bool classify = requires(const C& c, const std::exception_ptr& e) {
        { c.classify(e) } -> std::same_as<verdict>;
    };
    static constexpr bool classify_open = requires(const C& c, const std::exception_ptr& e) {
        { c.classify_open(e) } -> std::same_as<verdict>;
    };

    /// Refuses a member with a known name and a wrong signature, which would never be called. A set
    /// of overloads has no address and goes unnoticed.
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
    /// Refuses names that other pools use, which would never be called.
    static constexpr void must_have_known_names() {
#define CENOTE_OTHER_NAME(verb, name)                                                      \
    static_assert((verb) || !requires(C& c, T& t) { c.name(t); },                          \
                  "cenote: the pool never calls the connector's " #name ": name it " #verb \
                  ", or make it private")
        CENOTE_OTHER_NAME(probe, is_alive);
        CENOTE_OTHER_NAME(probe, isAlive);
        CENOTE_OTHER_NAME(probe, is_valid);
        CENOTE_OTHER_NAME(probe, isValid);
        CENOTE_OTHER_NAME(probe, validate);
        CENOTE_OTHER_NAME(probe, ping);
        CENOTE_OTHER_NAME(probe, health_check);
        CENOTE_OTHER_NAME(probe, Probe);
        CENOTE_OTHER_NAME(reset, Reset);
        CENOTE_OTHER_NAME(reset, recycle);
        CENOTE_OTHER_NAME(close, Close);
        CENOTE_OTHER_NAME(close, disconnect);
        CENOTE_OTHER_NAME(close, destroy);
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

/// Wraps a blocking connector for the compiled library.
template <class T, class C>
std::unique_ptr<blocking_connector> make_blocking(C&& c) {
    using type = std::decay_t<C>;
    static_assert(connector<type, T>,
                  "cenote: the connector's open() (or the callable itself) must return the "
                  "pool's resource type, or something that converts to it (an awaitable needs "
                  "<cenote/asio.hpp> and an executor: pool{executor, connector})");
    if constexpr (connector<type, T>) {
        verbs_of<has_verbs<type>, T>::must_fit();
        return std::make_unique<connector_of<T, type>>(std::forward<C>(c));
    } else {
        return nullptr;
    }
}

/// Wraps a connector of any kind; asio_connector.hpp adds a specialization for its kind.
template <class T, class C>
struct connector_maker {
    template <class From>
    static std::unique_ptr<any_connector> make(From&& c) {
        return make_blocking<T>(std::forward<From>(c));
    }
};

}  // namespace detail

}  // namespace cenote

// What a connector is: something that opens resources, and may probe, reset and close them.
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

/// A connector for resources of type T needs one thing: a way to open. Any callable that returns a
/// T is one; so is any object with `open()`. Everything else is optional:
///
///     struct my_connector {
///         session open();                           // throws: could not be opened
///         bool probe(session&);                     // false or throws: it is dead
///         void reset(session&);                     // throws: could not be cleaned (or bool)
///         void close(session&);                     // goodbye; the destructor follows
///         bool before_acquire(session&);            // false or throws: lend another one
///         bool before_release(session&);            // or verdict; false or throws: retire it
///         verdict classify(std::exception_ptr) const;       // what a user's exception means
///         verdict classify_open(std::exception_ptr) const;  // what open()'s exception means
///         void forsake(session&);                   // after a fork, in the child; see below
///     };
///
/// open, probe, reset and close may block: they run on the pool's own threads, each under its
/// timeout, never two at a time on one resource. before_acquire and before_release run on the
/// borrower's thread at every lease and must be quick (a look at a socket, not a round trip).
///
/// For a coroutine that acquires, before_acquire runs on a thread of the pool's, or on its executor
/// if it has one (see asio_connector.hpp), and the coroutine goes on when it has: a detour for each
/// lease. One that is declared noexcept is taken to be so quick that an event loop may make it. It
/// runs where the resource becomes the coroutine's: where that acquires, or where whoever had it
/// before gives it back.
///
/// After fork() whatever was open belongs to the parent. The child's pool begins empty, and lets go
/// of its copies without calling any of the above, nor the destructor: that might say goodbye on a
/// connection which the parent still uses. forsake is called instead, once for each: it closes the
/// descriptor and does nothing else. It runs in the child, on the thread that first uses the pool
/// there or that ends the lease. Without it the copy stays as it is, and its descriptor open.
///
/// before_release may also return a verdict: `keep` is true, and what its holder marked dirty stays
/// dirty; `reset` has it reset before anybody else gets it, like lease::mark_dirty(); `discard` and
/// `final` are false; `suspect` is lease::discard_and_suspect().
///
/// `reset_later` is for resources that can be reset by their next use, for next to nothing: a
/// session that sends its reset together with the next borrower's first request. The resource goes
/// back as it is and owes a reset. Its next lease may begin with that; what the resource is asked
/// to do there must make up for it first. If nobody leases it, `reset` is called when it has been
/// idle for options::reset_after; also before it is probed, and when the pool is paused. `keep`
/// says that nothing is owed any more. Requires a `reset`: without one the resource is retired, and
/// observers are told why.
///
/// classify_open says which errors of open() are `final`: another open will fail in the same way,
/// so the caller is told at once instead of at its deadline. All other verdicts mean: try again
/// later. Without it, classify is asked. See options::open_errors for pools that tell every open
/// error.
///
/// A connector whose probe depends on how it was made may have `bool can_probe() const noexcept`.
/// If that is false, it is taken for one without a probe; the answer must not change.
///
/// forsake returns nothing. All others but open, close and the two classify return bool or nothing;
/// what close returns is ignored. A member of one of these names that cannot be called like this
/// does not compile. Nor does one by a name of another pool's, like `is_alive` or `validate`, if
/// the verb of this pool is missing: it would never be called.
///
/// A std::shared_ptr to an object with these members is a connector, too: for connectors that are
/// chosen at run time, behind an interface of one's own or behind connector_interface.
///
/// Thread safety: the pool calls a connector from several threads at once, each time for another
/// resource.
template <class C, class T>
concept connector = requires(detail::has_verbs<C>& c) {
    { c.open() } -> std::convertible_to<T>;
} || requires(detail::has_verbs<C>& c) {
    { c() } -> std::convertible_to<T>;
};

/// An interface for connectors that are chosen at run time.
///
///     std::shared_ptr<cenote::connector_interface<session>> connect = choose(config);
///     cenote::pool<session> pool{connect};
///
/// Each member means what it means in any connector; see above. before_acquire and before_release
/// are not part of it: a pool whose connector has them pays for them at every lease.
template <class T>
class connector_interface {
public:
    virtual ~connector_interface() = default;
    virtual T open() = 0;
    /// Must be true if probe() is overridden.
    virtual bool can_probe() const noexcept { return false; }
    virtual bool probe(T&) { return true; }
    /// False: it cannot be cleaned, and is closed.
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

/// What a connector opens.
template <class C>
using opened_by = std::remove_cvref_t<decltype(call_open(std::declval<C&>()))>;

/// Exactly these: where 0 or an empty std::error_code mean success, they would be read as "no".
template <class R, template <class> class Outcome = std::type_identity>
concept bool_or_nothing = std::is_void_v<typename Outcome<R>::type> ||
                          std::same_as<std::remove_cvref_t<typename Outcome<R>::type>, bool>;

/// Calls that say "yes" by returning true or by returning at all.
template <class Call>
bool says_yes(Call&& call) {
    if constexpr (std::is_void_v<std::invoke_result_t<Call>>) {
        std::forward<Call>(call)();
        return true;
    } else {
        return std::forward<Call>(call)();
    }
}

/// The answer of a look at what comes back.
template <class R>
concept judgement = bool_or_nothing<R> || std::same_as<std::remove_cvref_t<R>, verdict>;

template <class Call>
verdict judged_by(Call&& call) {
    if constexpr (bool_or_nothing<std::invoke_result_t<Call>>)
        return says_yes(std::forward<Call>(call)) ? verdict::keep : verdict::discard;
    else return std::forward<Call>(call)();
}

/// Which of the optional members a connector has. `Outcome`: what comes of a call's return type.
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
    /// Whoever promises not to throw promises not to wait, either.
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

    /// A member that is there but does not fit was meant, and would never be called. (A set of
    /// overloads has no address, hence is not noticed.)
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
    /// Members by the names that other pools use would never be called, either.
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

/// What connectors of all kinds have in common.
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
                return;  // it is let go of in any case
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

/// As the library calls it. Requires a connector that blocks; says so if it is none.
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

/// The same for connectors of every kind that is known here: asio_connector.hpp adds its own.
template <class T, class C>
struct connector_maker {
    template <class From>
    static std::unique_ptr<any_connector> make(From&& c) {
        return make_blocking<T>(std::forward<From>(c));
    }
};

}  // namespace detail

}  // namespace cenote

// What a connector is: it opens resources, and can probe, reset and close them.
#pragma once

#include <concepts>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "cenote/detail/any_connector.hpp"
#include "cenote/detail/connector_of.hpp"
#include "cenote/detail/verbs.hpp"
#include "cenote/verdict.hpp"

namespace cenote {

/// A connector opens resources of type T. Any callable that returns a T is a connector, and so is
/// any object with `open()`. All other members are optional:
///
///     struct my_connector {
///         session open();                      // throws if it cannot open
///         bool probe(session&);                // health check: false or an exception retires it
///         void reset(session&);                // cleans it for the next user; throws if it cannot
///         void close(session&);                // graceful close, before the destructor
///         bool before_acquire(session&);       // false or an exception: retire it, try another
///         bool before_release(session&);       // false or an exception: retire it; see below
///         verdict classify(std::exception_ptr) const;       // exceptions of pool::with
///         verdict classify_open(std::exception_ptr) const;  // exceptions of open
///         void forsake(session&);              // in the child of a fork
///         std::string endpoint() const;        // for people: what it connects to, without secrets
///         bool can_probe() const noexcept;     // false: as if there were no probe
///     };
/// probe, reset and before_acquire return bool or void; before_release returns bool, void or
/// verdict; reset may return false instead of throwing. A member of these names with a wrong
/// signature is a compile error, unless the name is overloaded. A member with another pool's name
/// (`is_alive`) or a misspelling (`resset`) is a compile error unless the cenote member exists too.
///
/// **Threads.** open, probe, reset and close may block. They run on the pool's threads, each under
/// its timeout (options::open_timeout, …), never two at a time on one resource. After the pool is
/// destroyed, the thread that ends a lease calls close. before_acquire and before_release run at
/// each lease on the thread of the borrower, so they must be quick: for example a socket check
/// without a round trip. For a coroutine, before_acquire runs on a thread of the pool (or on its
/// executor, see asio_connector.hpp), and the coroutine resumes when it has returned. If
/// before_acquire is noexcept, it runs on the thread that grants the resource to the coroutine,
/// which can be an event loop.
///
/// **before_release** may return a verdict:
///
/// | verdict | same as | effect |
/// |---|---|---|
/// | `keep` | true | the resource is kept; if it was marked dirty, it is reset |
/// | `reset` | lease::mark_dirty() | it is reset before its next use |
/// | `reset_later` | – | see below |
/// | `discard`, `final` | false | it is retired |
/// | `suspect` | lease::discard_and_suspect() | it is retired, and the others are probed |
///
/// **reset_later** defers the reset to the next user, for resources that can then be reset cheaply:
/// a session that sends its reset together with the next request. The resource becomes idle. The
/// next lease must reset it first. If no lease comes, the pool calls `reset` when the resource has
/// been idle for options::reset_after, before a probe, and when the pool is paused. If
/// before_release returns `keep`, a reset that the resource still owes is dropped. Requires a
/// `reset`; without one the resource is retired, and an event gives the reason.
///
/// **classify_open** says which errors of open are `final`. A final error refuses the first waiter
/// at once; if no resource is open or opening, it refuses all waiters. With any other verdict the
/// pool retries. Without classify_open the pool asks classify. See options::open_errors.
///
/// **can_probe** is for connectors that can probe only in some configurations. The answer must
/// never change.
///
/// **endpoint** is read when a dashboard starts to watch the pool, and by pool::endpoint(). A
/// member of this name with another signature is no error: the pool does not call it.
///
/// **forsake** must close the descriptor and nothing else. After fork() the resources belong to the
/// parent, so the pool of the child starts empty and calls neither the other members nor T's
/// destructor: these could write to a connection that the parent still uses. forsake runs once for
/// each resource, on the thread that first uses the pool in the child or that ends the lease.
/// Without forsake the child's descriptors stay open. If a connector or an observer calls fork(),
/// the child must not return from that call; it may only exec or _exit.
///
/// A std::shared_ptr to an object with these members is also a connector; see connector_interface.
///
/// Thread safety: the pool calls a connector from several threads at once, each call for a
/// different resource.
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
/// among them, because they would cost a virtual call for each lease.
template <class T>
class connector_interface {
public:
    virtual ~connector_interface() = default;
    /// Opens a resource, or throws.
    virtual T open() = 0;
    /// A class that overrides probe() must override this to return true.
    virtual bool can_probe() const noexcept { return false; }
    virtual bool probe(T&) { return true; }
    /// Returning false, the default, makes the pool close the resource.
    virtual bool reset(T&) { return false; }
    virtual void close(T&) {}
    virtual verdict classify(const std::exception_ptr&) const { return verdict::discard; }
    virtual verdict classify_open(const std::exception_ptr& error) const { return classify(error); }
    virtual void forsake(T&) {}
    virtual std::string endpoint() const { return {}; }

protected:
    connector_interface() = default;
    connector_interface(const connector_interface&) = default;
    connector_interface& operator=(const connector_interface&) = default;
};

namespace detail {

/// Explains at compile time why C is not a connector of T.
template <class C, class T>
constexpr void must_be_connector() {
    constexpr bool is_pointer =
        !opens<C> && requires(C& c) { requires opens<std::remove_reference_t<decltype(*c)>>; };
    static_assert(!is_pointer,
                  "cenote: pass the connector itself or a std::shared_ptr to it, not a pointer or "
                  "a std::unique_ptr");
    static_assert(opens<C> || is_pointer,
                  "cenote: a connector needs open() without parameters, or must be callable "
                  "without arguments (the options of a pool come after its connector)");
    if constexpr (opens<C>)
        static_assert(connector<C, T>,
                      "cenote: the connector's open() (or the callable itself) must return the "
                      "pool's resource type, or something that converts to it (an awaitable needs "
                      "<cenote/asio.hpp> and an executor: pool{executor, connector})");
}

/// Wraps a blocking connector for the compiled library.
template <class T, class C>
std::unique_ptr<blocking_connector> make_blocking(C&& c) {
    using type = std::decay_t<C>;
    must_be_connector<type, T>();
    static_assert(std::constructible_from<type, C>,
                  "cenote: the pool keeps a copy of its connector, and this one cannot be copied: "
                  "pass it with std::move");
    if constexpr (connector<type, T> && std::constructible_from<type, C>) {
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

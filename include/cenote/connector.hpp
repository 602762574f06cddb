// What a connector is: it opens resources, and can probe, reset and close them.
#pragma once

#include <concepts>
#include <exception>
#include <memory>
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

// The connection pool: opens, lends, probes, resets, retires and closes resources.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <new>
#include <source_location>
#include <stop_token>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "cenote/breaker.hpp"
#include "cenote/connector.hpp"
#include "cenote/detail/gate.hpp"
#include "cenote/detail/refuse.hpp"
#include "cenote/error.hpp"
#include "cenote/lease.hpp"
#include "cenote/observer.hpp"
#include "cenote/options.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/stats.hpp"

namespace cenote {

template <class T>
class awaited;  // needs #include <cenote/coroutine.hpp>, or <cenote/asio.hpp> for Boost.Asio
template <class T>
class per_executor;

namespace detail {

/// Gives the C API direct access to the pool's implementation (detail/gate.hpp).
struct pool_access {
    template <class Pool>
    static gate& of(const Pool& p) noexcept {
        return *p.gate_;
    }
};

/// Tells pool(executor, connector) from pool(connector, options).
template <class Where, class C, class T>
concept executor_and_connector =
    !connector<std::decay_t<Where>, T> && !std::convertible_to<Where, options> &&
    !std::convertible_to<C, options>;

/// The compiler's message shows this name if <cenote/asio.hpp> is missing. That header specializes
/// the template to open a pool on an executor. The empty form appears as a default template
/// argument, so messages about async_acquire show the name, too.
template <class...>
struct needs_include_cenote_asio_hpp;

}  // namespace detail

/// A pool of resources of type T, each lent to one user at a time.
///
///     cenote::pool<session> pool{[] { return session{"db"}; }, {.max = 32}};
///     auto s = pool.acquire();      // waits at most options::acquire_timeout, then throws
///     s->query("…");                // the lease returns the session when it ends
///
/// T is any movable type; it need not be default-constructible. The first argument is a callable
/// that opens a T, or a connector object that can also probe, reset and close (connector.hpp).
///
/// An acquire takes an idle resource. If none is idle, the caller waits in line, and the pool opens
/// a resource if `max` allows. The line is served in order of arrival; options::fairness and
/// priority define exceptions. The deadline of an acquire covers waiting, opening, probing and
/// resetting.
///
/// An acquire throws timed_out_error, closed_error, unavailable_error, line_full_error, shed_error,
/// canceled_error, open_failed_error or deadlock_error (all of them pool_error), std::bad_alloc,
/// and std::system_error if the pool cannot start its first thread.
///
/// Thread safety: every member may be called from any thread at any time, including from connectors
/// and observers. No other thread may be executing a member when the pool is destroyed. Leases
/// may outlive the pool.
template <class T>
class pool {
    static_assert(std::is_object_v<T> && std::is_move_constructible_v<T>,
                  "cenote: a pooled resource must be a movable object type; pool "
                  "std::unique_ptr<T> if T cannot be moved");
    using header = detail::needs_include_cenote_asio_hpp<>;

public:
    /// Opens the minimum number of resources; options::warm_up says when. Throws invalid_option,
    /// std::bad_alloc, std::system_error if its first thread cannot start, and with warm_up::wait
    /// the error of the first failed open.
    template <class C>
        requires(!std::same_as<std::remove_cvref_t<C>, pool>)
    explicit pool(C&& connector, const options& settings = {})
        : gate_(
              detail::gate::open(settings, detail::make_blocking<T>(std::forward<C>(connector)))) {}

    /// A pool without threads; requires <cenote/asio.hpp>. The connector is asynchronous, and its
    /// calls run on `where`, an executor or execution context of Boost.Asio that must outlive the
    /// pool. `run()` does not return while callers wait, calls run or resources can expire
    /// (idle_timeout, max_lifetime, heartbeat, leak_after), because the pool's timer counts as
    /// outstanding work; see suspend_maintenance(). Throws like the other constructor, and
    /// invalid_option for warm_up::wait.
    template <class Where, class C>
        requires detail::executor_and_connector<Where, C, T>
    pool(Where&& where, C&& connector, const options& settings = {})
        : gate_(detail::needs_include_cenote_asio_hpp<T, Where, C>::open(
              where, std::forward<C>(connector), settings)) {}

    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;

    /// Closes the pool and waits for each running connector call until it returns or times out.
    /// Does not wait for leases. On an executor it waits for nothing: running calls are canceled,
    /// and idle resources are destroyed without the connector's close. For a graceful shutdown call
    /// close(timeout) or await async_close() first. The connector is destroyed after its last call
    /// has returned and its last resource is destroyed.
    ~pool() { gate_->shut_down(); }

    /// Waits for a lease, at most for options::acquire_timeout.
    lease<T> acquire(std::source_location at = std::source_location::current()) {
        if (auto* r = gate_->take(at, detail::this_thread())) [[likely]]
            return lease<T>(r);
        return wait({.timeout = gate_->acquire_timeout(), .site = at});
    }
    /// `how` overrides the pool's options for this acquire; see acquire_options.
    lease<T> acquire(const acquire_options& how,
                     std::source_location at = std::source_location::current()) {
        detail::lease_terms terms = detail::gate::terms_of(how);
        if (auto* r = gate_->take(at, terms, detail::this_thread())) return lease<T>(r);
        return wait(request_of(how, terms, at));
    }
    /// On an error, sets `error` and returns an empty lease. To use only the pool's options:
    /// `pool.acquire({}, error)`.
    lease<T> acquire(const acquire_options& how, std::error_code& error,
                     std::source_location at = std::source_location::current()) {
        error.clear();
        detail::lease_terms terms = detail::gate::terms_of(how);
        if (auto* r = gate_->take(at, terms, detail::this_thread())) return lease<T>(r);
        return wait(request_of(how, terms, at), error);
    }
    /// As `acquire({.timeout = timeout})`.
    lease<T> acquire_for(std::chrono::nanoseconds timeout,
                         std::source_location at = std::source_location::current()) {
        return acquire({.timeout = timeout}, at);
    }
    /// As `acquire({.deadline = deadline})`.
    lease<T> acquire_until(std::chrono::steady_clock::time_point deadline,
                           std::source_location at = std::source_location::current()) {
        return acquire({.deadline = deadline}, at);
    }

    /// Waits for `count` leases at once: all of them or none. Callers that take all their leases
    /// with one call cannot deadlock each other. While the request is at the head of the line,
    /// resources that become free are kept for it.
    ///
    /// Throws what acquire throws, and std::invalid_argument if `count` is zero or more than `max`.
    [[nodiscard]] std::vector<lease<T>> acquire_many(
        std::size_t count, const acquire_options& how = {},
        std::source_location at = std::source_location::current()) {
        detail::refusal why;
        auto leases = wait_for_many(count, how, at, why);
        if (leases.empty()) gate_->fail(why, how.queue, count);
        return leases;
    }
    /// On a pool error, sets `error` and returns an empty vector.
    [[nodiscard]] std::vector<lease<T>> acquire_many(
        std::size_t count, const acquire_options& how, std::error_code& error,
        std::source_location at = std::source_location::current()) {
        error.clear();
        detail::refusal why;
        auto leases = wait_for_many(count, how, at, why);
        if (leases.empty()) error = why.error;
        return leases;
    }

    /// Takes a resource that is ready, and never waits. The lease is empty
    /// - if no resource is ready; the pool may then open one in the background;
    /// - if waiters go first (options::fairness);
    /// - if the pool is closed or paused, or its circuit is open.
    ///
    /// May throw std::bad_alloc.
    lease<T> try_acquire(std::source_location at = std::source_location::current()) {
        std::uint64_t holder = detail::this_thread();
        if (auto* r = gate_->take(at, holder)) return lease<T>(r);
        return lease<T>(gate_->try_acquire(at, {}, holder));
    }

    // co_acquire: for coroutines of any type; requires <cenote/coroutine.hpp> or <cenote/asio.hpp>.

    /// Awaits a lease: `auto conn = co_await pool.co_acquire();`. The overloads are those of
    /// acquire. See `awaited` for where the coroutine is resumed.
    awaited<T> co_acquire(std::source_location at = std::source_location::current());
    awaited<T> co_acquire(const acquire_options& how,
                          std::source_location at = std::source_location::current());
    /// `error` must outlive the wait.
    awaited<T> co_acquire(const acquire_options& how, std::error_code& error,
                          std::source_location at = std::source_location::current());
    awaited<T> co_acquire_for(std::chrono::nanoseconds timeout,
                              std::source_location at = std::source_location::current());
    awaited<T> co_acquire_until(std::chrono::steady_clock::time_point deadline,
                                std::source_location at = std::source_location::current());

    // async_acquire: for Boost.Asio and any completion token; requires <cenote/asio.hpp>.

    /// Completes with (boost::system::error_code, lease<T>) on the handler's executor. With
    /// use_awaitable the coroutine gets the lease, or the exception that acquire() would throw. The
    /// handler's cancellation slot ends the wait with `canceled`.
    template <class Token, class Header = header>
    auto async_acquire(Token&& token, std::source_location at = std::source_location::current());
    template <class Token, class Header = header>
    auto async_acquire(const acquire_options& how, Token&& token,
                       std::source_location at = std::source_location::current());
    template <class Token, class Header = header>
    auto async_acquire_for(std::chrono::nanoseconds timeout, Token&& token,
                           std::source_location at = std::source_location::current());
    template <class Token, class Header = header>
    auto async_acquire_until(std::chrono::steady_clock::time_point deadline, Token&& token,
                             std::source_location at = std::source_location::current());

    /// Acquires a lease, calls `use(resource)`, and returns its result. If `use` throws, the
    /// connector's classify decides whether the resource is kept; without classify it is discarded.
    template <class F>
    std::invoke_result_t<F, T&> with(F&& use,
                                     std::source_location at = std::source_location::current()) {
        lease<T> mine = acquire(at);
        try {
            return std::invoke(std::forward<F>(use), *mine);
        } catch (...) {
            mine.give_back(std::current_exception(), verdict::discard);
            throw;
        }
    }

    /// A consistent snapshot of the counts. Normally takes no lock.
    cenote::stats stats() const { return gate_->read(); }

    /// The current leases, longest-held first. Fast-lane leases taken since the last sweep have no
    /// start time yet and come last. For diagnosis: allocates, and scans all slots under the pool's
    /// lock.
    std::vector<lease_info> leases() const { return gate_->leases(); }

    /// The callers in line, those of the highest priority first, each priority in its order; at
    /// most 1000 of them. For diagnosis, like leases().
    std::vector<waiter_info> waiters() const { return gate_->waiters(); }

    /// The state of each slot, indexed by slot number. At least `max` entries; more after a resize
    /// to a smaller `max`. For diagnosis, like leases().
    std::vector<slot_info> slots() const { return gate_->slots(); }

    /// A type-erased handle, for dashboards and health checks.
    pool_control control() const noexcept { return pool_control(gate_); }

    /// What the connector says it connects to, as a text for people without users and secrets:
    /// "postgresql://db1:5432/orders". Empty if the connector has no `endpoint()`.
    std::string endpoint() const { return gate_->endpoint(); }

    /// options::name.
    const std::string& name() const noexcept { return gate_->name(); }

    /// The options in force, with the changes made by resize() and set_breaker().
    options settings() const { return gate_->settings(); }

    /// Whether close() was called. A closed pool refuses every acquire.
    bool closed() const noexcept { return gate_->closed(); }

    /// The error of the last open; null if it succeeded, or if no open has ended yet.
    std::exception_ptr open_error() const { return gate_->open_error(); }

    /// Waits until the minimum is open; starts the opens if `warm_up` is `none`. Returns false on
    /// timeout, or if the pool is closed. After a timeout, open_error() can give the reason.
    bool wait_ready(std::chrono::nanoseconds timeout,
                    std::source_location at = std::source_location::current()) {
        return gate_->wait_ready(timeout, at);
    }

    /// Replaces all open resources: idle ones a few at a time, leased ones when their leases end.
    /// For a failover, or after a change of the server's settings.
    void retire_all() { gate_->retire_all(); }

    /// Probes each resource that is open now before its next lease, regardless of
    /// `probe_after_idle`. If the connector cannot probe, does what retire_all() does. Call it when
    /// you learn that the server has changed; a borrower that detects the change calls
    /// lease::discard_and_suspect().
    void suspect_all() noexcept { gate_->suspect_all(); }

    /// Uses `connector` for all opens from now on: for rotated credentials, or a server that has
    /// moved. Resources that are open or being opened are replaced as with retire_all(). Each
    /// resource is probed, reset and closed by the connector that opened it; the old connector
    /// lives until its last call and its last resource are gone.
    ///
    /// The new connector may have another type. It must be of the same kind (asynchronous if the
    /// pool is on an executor). It must define the same subset of probe, reset, before_acquire and
    /// before_release as the old connector. before_acquire must be noexcept in both or in neither,
    /// and can_probe() must return the same value. Otherwise throws std::invalid_argument and
    /// changes nothing. Also throws std::bad_alloc.
    template <class C>
    void replace_connector(C&& connector) {
        gate_->replace_connector(
            detail::connector_maker<T, std::decay_t<C>>::make(std::forward<C>(connector)));
    }

    /// Changes `max`. After an increase, the pool may open more resources for waiters. A decrease
    /// does not end leases: the pool closes idle resources first, longest unused first, then
    /// resources as they are released, and opens none while more than `max` are open. A waiter that
    /// wants more than `max` at once (acquire_many) is refused with `deadlock`.
    ///
    /// Throws std::bad_alloc, and invalid_option if `max` is 0, more than 1 000 000, or less than
    /// min_size or min_idle. On an exception nothing changes.
    void resize(std::size_t max) { gate_->resize(max); }

    /// Until resume(), grants no leases and starts no opens, sweeps or probes. Waiting callers keep
    /// their place and deadline; new callers join the line. Current leases remain valid. For a
    /// controlled failover: pause, switch the server over, retire_all, resume.
    void pause() { gate_->pause(); }
    void resume() { gate_->resume(); }

    /// Stops sweeps, background probes, the replacement of closed resources and leak reports until
    /// resume_maintenance(). Lending goes on, and an acquire still checks the age and idle time of
    /// the resource it gets. While maintenance is suspended, `run()` of the pool's executor can
    /// return when no connector call runs and no caller waits. Disables the fast lane. For tests,
    /// and for programs that need a phase without background work. Calls do not nest: one resume
    /// is enough.
    void suspend_maintenance() { gate_->suspend_maintenance(); }
    void resume_maintenance() { gate_->resume_maintenance(); }

    // Manual control of the circuit breaker. Every transition is allowed. options::breaker sets a
    // strategy that moves it; stats().breaker is the current state.

    /// Closes the circuit: normal operation.
    void activate() { gate_->move_breaker({.to = breaker_state::active}); }
    /// Opens the circuit until another call closes it: refuses new and waiting callers with
    /// `unavailable`. Current leases remain valid. There is no automatic recovery.
    void deactivate() {
        gate_->move_breaker({.to = breaker_state::inactive, .cool_down = forever});
    }
    /// Half-opens the circuit: grants at most `probes` trial leases at a time and refuses all other
    /// callers. The strategy decides what follows; without one the first success closes the
    /// circuit, and a failure opens it.
    void recover(std::size_t probes = 1) {
        gate_->move_breaker({.to = breaker_state::recovering, .probes = probes});
    }
    /// Replaces the strategy; null removes it. The new strategy starts without history. The
    /// circuit's state does not change. Throws invalid_option if the strategy belongs to another
    /// pool.
    void set_breaker(std::shared_ptr<breaker> strategy) { gate_->set_breaker(std::move(strategy)); }

    /// Estimated time to wait before a retry after a refusal with `timed_out`, `unavailable`,
    /// `line_full` or `shed`. Exceptions carry it as pool_error::retry_after().
    std::chrono::nanoseconds retry_after() const { return gate_->retry_after(); }

    /// Refuses new and waiting callers with `closed`. Closes idle resources now and leased ones
    /// when their lease ends. Repeated calls have no effect.
    void close() noexcept { gate_->close(); }

    /// close(), then waits until all leases have ended and all resources are closed, at most for
    /// `timeout`. Returns the number of leases still held.
    std::size_t close(std::chrono::nanoseconds timeout,
                      std::source_location at = std::source_location::current()) noexcept {
        return gate_->close(timeout, at);
    }

    /// Asynchronous close(timeout); requires <cenote/asio.hpp>. Completes with
    /// (boost::system::error_code, number of leases still held).
    template <class Token, class Header = header>
    auto async_close(std::chrono::nanoseconds timeout, Token&& token);

    /// Asynchronous wait_ready(); requires <cenote/asio.hpp>. Completes with
    /// (boost::system::error_code): no error when the minimum is open, `closed` if the pool is
    /// closed. After `timeout` the error is `open_failed` if the last open failed (see
    /// open_error()), and `timed_out` otherwise.
    template <class Token, class Header = header>
    auto async_wait_ready(std::chrono::nanoseconds timeout, Token&& token);
    template <class Token, class Header = header>
    auto async_wait_ready(Token&& token);

    // Only a call with a mistake selects one of these overloads; its message explains the mistake.

    CENOTE_REFUSE(
        explicit pool(...),
        "cenote: write pool{connector, {.max = 32}}. An option is misspelt, or a value has "
        "the wrong type (a duration is 5s, not 5). Write cenote::options{...} instead of "
        "{...}, and the compiler names it");
    CENOTE_REFUSE(
        lease<T> acquire(...) const,
        "cenote: write acquire(), acquire({.timeout = 5s}) or acquire({}, error), with a "
        "pool that is not const. An option is misspelt, has the wrong type or is a "
        "temporary. Write cenote::acquire_options{...} instead of {...}, and the compiler "
        "names it");
    CENOTE_REFUSE(lease<T> acquire_for(...),
                  "cenote: acquire_for needs a std::chrono duration: acquire_for(5s)");
    CENOTE_REFUSE(lease<T> acquire_until(...),
                  "cenote: acquire_until needs a time of std::chrono::steady_clock");
    CENOTE_REFUSE(std::vector<lease<T>> acquire_many(...),
                  "cenote: write acquire_many(2), acquire_many(2, {.timeout = 5s}) or "
                  "acquire_many(2, {}, error). Write cenote::acquire_options{...} instead of "
                  "{...}, and the compiler names a wrong option");
    CENOTE_REFUSE(awaited<T> co_acquire(...),
                  "cenote: write co_acquire(), co_acquire({.timeout = 5s}) or co_acquire({}, "
                  "error); completion tokens are for async_acquire. Write "
                  "cenote::acquire_options{...} instead of {...}, and the compiler names a wrong "
                  "option");
    CENOTE_REFUSE(awaited<T> co_acquire_for(...),
                  "cenote: co_acquire_for needs a std::chrono duration: co_acquire_for(5s)");
    CENOTE_REFUSE(awaited<T> co_acquire_until(...),
                  "cenote: co_acquire_until needs a time of std::chrono::steady_clock");
    CENOTE_REFUSE(void async_acquire(...),
                  "cenote: write async_acquire(token) or async_acquire({.timeout = 5s}, token). "
                  "Write cenote::acquire_options{...} instead of {...}, and the compiler names a "
                  "wrong option");
    CENOTE_REFUSE(void async_acquire_for(...),
                  "cenote: async_acquire_for needs a std::chrono duration and a completion token: "
                  "async_acquire_for(5s, token)");
    CENOTE_REFUSE(void async_acquire_until(...),
                  "cenote: async_acquire_until needs a time of std::chrono::steady_clock and a "
                  "completion token");
    CENOTE_REFUSE(void with(...),
                  "cenote: with needs a function that accepts a T&, the resource: "
                  "with([](session& s) { ... })");
    CENOTE_REFUSE(bool wait_ready(...),
                  "cenote: wait_ready needs a std::chrono duration: wait_ready(5s)");
    CENOTE_REFUSE(std::size_t close(...),
                  "cenote: write close(), or close(5s) with a std::chrono duration");
    CENOTE_REFUSE(void async_close(...),
                  "cenote: async_close needs a std::chrono duration and a completion token: "
                  "async_close(5s, token)");
    CENOTE_REFUSE(void async_wait_ready(...),
                  "cenote: async_wait_ready needs a std::chrono duration and a completion token: "
                  "async_wait_ready(5s, token)");

private:
    friend class per_executor<T>;
    friend struct detail::pool_access;

    detail::acquire_request request_of(const acquire_options& how, const detail::lease_terms& terms,
                                       std::source_location at) const {
        return {.timeout = gate_->timeout_of(how),
                .deadline = detail::gate::deadline_of(how),
                .stop = how.stop.token(),
                .site = at,
                .terms = terms,
                .trace = detail::gate::trace_of(how)};
    }

    lease<T> wait(const detail::acquire_request& request) {
        detail::refusal why;
        if (auto* r = gate_->acquire(request, why)) return lease<T>(r);
        gate_->fail(why, request.terms.queues);
    }

    lease<T> wait(const detail::acquire_request& request, std::error_code& error) {
        try {
            detail::refusal why;
            if (auto* r = gate_->acquire(request, why)) return lease<T>(r);
            error = why.error;
        } catch (const std::bad_alloc&) {
            error = std::make_error_code(std::errc::not_enough_memory);
        } catch (const std::system_error& e) {
            error = e.code();
        }
        return lease<T>();
    }

    std::vector<lease<T>> wait_for_many(std::size_t count, const acquire_options& how,
                                        std::source_location at, detail::refusal& why) {
        gate_->check_count(count);
        std::vector<detail::resource*> resources(count);
        std::vector<lease<T>> leases;
        leases.reserve(count);
        auto request = request_of(how, detail::gate::terms_of(how), at);
        if (!gate_->acquire_many(request, resources, why)) return leases;
        for (detail::resource* r : resources) {
            leases.push_back(lease<T>(r));
            detail::lease_maker::hold_here(leases.back());
        }
        return leases;
    }

    detail::gate* gate_;
};

template <class C>
pool(C) -> pool<detail::opened_by<C>>;
template <class C>
pool(C, options) -> pool<detail::opened_by<C>>;
pool(...) -> pool<detail::unknown_resource>;  // whose constructors say what is wrong

}  // namespace cenote

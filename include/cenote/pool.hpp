// The pool: opens, lends, checks, resets, retires and closes; its users only acquire.
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
#include "cenote/error.hpp"
#include "cenote/lease.hpp"
#include "cenote/observer.hpp"
#include "cenote/options.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/stats.hpp"

namespace cenote {

template <class T>
class awaited;
template <class T>
class per_executor;

namespace detail {

/// For those who must not go through more than they need.
struct gate_finder {
    template <class Pool>
    static gate& of(const Pool& p) noexcept {
        return *p.gate_;
    }
};

/// Not a connector and its options, hence a place and a connector.
template <class Where, class C, class T>
concept two_for_a_pool = !connector<std::decay_t<Where>, T> && !std::convertible_to<C, options>;

}  // namespace detail

/// A pool of resources of type T, each lent to one user at a time.
///
///     cenote::pool<session> pool{[] { return session{"db"}; }, {.max = 32}};
///     auto s = pool.acquire();      // waits at most options::acquire_timeout, then throws
///     s->query("…");                // the lease returns the session when it ends
///
/// T is any movable type; it need not be default-constructible. Instead of a callable, a connector
/// object can also probe, reset and close (see connector.hpp).
///
/// Every acquire comes in these forms: waiting for `options::acquire_timeout`, for a duration or
/// until a deadline; each also with a stop token that ends the wait, and with an error code instead
/// of exceptions. A deadline covers the whole acquire: waiting, opening, probing, resetting. Who
/// waits is served first come, first served.
///
/// Throws: timed_out_error, closed_error, unavailable_error, line_full_error, canceled_error,
/// open_failed_error (all pool_error), std::bad_alloc, and std::system_error if the pool's first
/// thread cannot be started.
///
/// Thread safety: all members may be called from any thread at any time, also from a connector, an
/// observer or a holder. Destroying the pool is like destroying any object: no other thread may be
/// in a member then. Leases may outlive it.
template <class T>
class pool {
    static_assert(std::is_object_v<T> && std::is_move_constructible_v<T>,
                  "cenote: a pooled resource must be a movable object type");

public:
    /// Opens the minimum as `options::warm_up` says. Throws invalid_option, std::bad_alloc, and
    /// with warm_up::wait what the first failed open threw.
    template <class C>
        requires(!std::same_as<std::remove_cvref_t<C>, pool>)
    explicit pool(C&& connector, const options& settings = {})
        : gate_(
              detail::gate::open(settings, detail::make_blocking<T>(std::forward<C>(connector)))) {}

    /// A pool without a thread, with <cenote/asio.hpp>: the connector is asynchronous, and its
    /// calls run on `where`, an executor or execution context of Boost.Asio that must outlive the
    /// pool. While calls or callers wait, or an option sets a deadline (idle_timeout, max_lifetime,
    /// heartbeat, leak_after), the pool's timer keeps `where` busy; see suspend_maintenance().
    /// Throws as above, and invalid_option for warm_up::wait.
    template <class Where, class C>
        requires detail::two_for_a_pool<Where, C, T>
    pool(Where&& where, C&& connector, const options& settings = {});

    pool(const pool&) = delete;
    pool& operator=(const pool&) = delete;

    /// Closes the pool and waits for connector calls in flight, each at most until its own timeout.
    /// Does not wait for leases. On an executor it waits for nothing: calls under way are
    /// cancelled, what is idle is destroyed without a close. Await async_close() first to part
    /// politely. The connector ends here if no call of its own is left, nor a resource.
    ~pool() { gate_->leave(); }

    // acquire: wait for options::acquire_timeout.

    [[nodiscard]] lease<T> acquire(std::source_location at = std::source_location::current()) {
        if (auto* r = gate_->take(at, detail::this_thread())) [[likely]]
            return lease<T>(r);
        return wait({.deadline = gate_->default_deadline(), .stop = {}, .site = at});
    }
    /// As the options say; see there.
    [[nodiscard]] lease<T> acquire(const acquire_options& how,
                                   std::source_location at = std::source_location::current()) {
        return take_or_wait(as_said(how), {}, at, gate_->manner_of(how));
    }
    [[nodiscard]] lease<T> acquire(const acquire_options& how, std::stop_token stop,
                                   std::source_location at = std::source_location::current()) {
        return take_or_wait(as_said(how), std::move(stop), at, gate_->manner_of(how));
    }
    [[nodiscard]] lease<T> acquire(const acquire_options& how, std::error_code& error,
                                   std::source_location at = std::source_location::current()) {
        return take_or_wait(as_said(how), {}, error, at, gate_->manner_of(how));
    }
    [[nodiscard]] lease<T> acquire(const acquire_options& how, std::stop_token stop,
                                   std::error_code& error,
                                   std::source_location at = std::source_location::current()) {
        return take_or_wait(as_said(how), std::move(stop), error, at, gate_->manner_of(how));
    }
    [[nodiscard]] lease<T> acquire(std::stop_token stop,
                                   std::source_location at = std::source_location::current()) {
        return take_or_wait(as_usual(), std::move(stop), at);
    }
    [[nodiscard]] lease<T> acquire(std::error_code& error,
                                   std::source_location at = std::source_location::current()) {
        return take_or_wait(as_usual(), {}, error, at);
    }
    [[nodiscard]] lease<T> acquire(std::stop_token stop, std::error_code& error,
                                   std::source_location at = std::source_location::current()) {
        return take_or_wait(as_usual(), std::move(stop), error, at);
    }

    // acquire_for: wait for so long; zero or less: only what is ready now.

    [[nodiscard]] lease<T> acquire_for(std::chrono::nanoseconds timeout,
                                       std::source_location at = std::source_location::current()) {
        return take_or_wait(in(timeout), {}, at);
    }
    [[nodiscard]] lease<T> acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop,
                                       std::source_location at = std::source_location::current()) {
        return take_or_wait(in(timeout), std::move(stop), at);
    }
    [[nodiscard]] lease<T> acquire_for(std::chrono::nanoseconds timeout, std::error_code& error,
                                       std::source_location at = std::source_location::current()) {
        return take_or_wait(in(timeout), {}, error, at);
    }
    [[nodiscard]] lease<T> acquire_for(std::chrono::nanoseconds timeout, std::stop_token stop,
                                       std::error_code& error,
                                       std::source_location at = std::source_location::current()) {
        return take_or_wait(in(timeout), std::move(stop), error, at);
    }

    // acquire_until: wait until then.

    [[nodiscard]] lease<T> acquire_until(
        std::chrono::steady_clock::time_point deadline,
        std::source_location at = std::source_location::current()) {
        return take_or_wait(at_the(deadline), {}, at);
    }
    [[nodiscard]] lease<T> acquire_until(
        std::chrono::steady_clock::time_point deadline, std::stop_token stop,
        std::source_location at = std::source_location::current()) {
        return take_or_wait(at_the(deadline), std::move(stop), at);
    }
    [[nodiscard]] lease<T> acquire_until(
        std::chrono::steady_clock::time_point deadline, std::error_code& error,
        std::source_location at = std::source_location::current()) {
        return take_or_wait(at_the(deadline), {}, error, at);
    }
    [[nodiscard]] lease<T> acquire_until(
        std::chrono::steady_clock::time_point deadline, std::stop_token stop,
        std::error_code& error, std::source_location at = std::source_location::current()) {
        return take_or_wait(at_the(deadline), std::move(stop), error, at);
    }

    /// `count` leases or none: nobody holds some of them while waiting for the rest, so users of
    /// several cannot block each other. Waits in line like everybody; from the time it is first in
    /// line, what becomes free is kept for it.
    ///
    /// Throws what acquire throws, and std::invalid_argument if `count` is zero or more than `max`.
    [[nodiscard]] std::vector<lease<T>> acquire_many(
        std::size_t count, const acquire_options& how = {}, std::stop_token stop = {},
        std::source_location at = std::source_location::current()) {
        auto since = gate_->now();
        errc why{};
        auto held = take_many(count, std::move(stop), how, at, why);
        if (held.empty()) gate_->fail(why, since, how.queue, count);
        return held;
    }
    /// The same with a code for pool errors; empty if not all could be had.
    [[nodiscard]] std::vector<lease<T>> acquire_many(
        std::size_t count, const acquire_options& how, std::error_code& error,
        std::source_location at = std::source_location::current()) {
        error.clear();
        errc why{};
        auto held = take_many(count, {}, how, at, why);
        if (held.empty()) error = why;
        return held;
    }

    /// What is ready now; never waits, neither for others nor for the connector. Empty if nothing
    /// is (then one may be opened in the background) or the pool is closed. Never overtakes the
    /// line.
    [[nodiscard]] lease<T> try_acquire(std::source_location at = std::source_location::current()) {
        std::uint64_t holder = detail::this_thread();
        if (auto* r = gate_->take(at, holder)) return lease<T>(r);
        return lease<T>(gate_->try_acquire(at, holder));
    }

    // co_acquire: for coroutines of any type, with <cenote/coroutine.hpp>.

    /// Awaits a lease for options::acquire_timeout: `auto held = co_await pool.co_acquire();`. See
    /// `awaited` for what can be said in between: where to resume, what stops the wait.
    [[nodiscard]] awaited<T> co_acquire(std::source_location at = std::source_location::current());
    [[nodiscard]] awaited<T> co_acquire(const acquire_options& how,
                                        std::source_location at = std::source_location::current());
    [[nodiscard]] awaited<T> co_acquire_for(
        std::chrono::nanoseconds timeout,
        std::source_location at = std::source_location::current());
    [[nodiscard]] awaited<T> co_acquire_until(
        std::chrono::steady_clock::time_point deadline,
        std::source_location at = std::source_location::current());

    // async_acquire: for Boost.Asio and any completion token, with <cenote/asio.hpp>.

    /// Completes with (boost::system::error_code, lease<T>), through the handler's executor. With
    /// use_awaitable the coroutine gets the lease, or the exception that acquire() would throw.
    template <class Token>
    auto async_acquire(Token&& token, std::source_location at = std::source_location::current());
    template <class Token>
    auto async_acquire(const acquire_options& how, Token&& token,
                       std::source_location at = std::source_location::current());
    template <class Token>
    auto async_acquire_for(std::chrono::nanoseconds timeout, Token&& token,
                           std::source_location at = std::source_location::current());
    template <class Token>
    auto async_acquire_until(std::chrono::steady_clock::time_point deadline, Token&& token,
                             std::source_location at = std::source_location::current());

    /// Acquires, calls `use` with the resource, and returns what it returns. If it throws, the
    /// connector's classify decides what happens to the resource; without one it is discarded.
    template <class F>
    std::invoke_result_t<F, T&> with(F&& use,
                                     std::source_location at = std::source_location::current()) {
        lease<T> held = acquire(at);
        try {
            return std::invoke(std::forward<F>(use), *held);
        } catch (...) {
            held.give_back(std::current_exception(), verdict::discard);
            throw;
        }
    }

    /// One consistent look at the pool. Takes no lock that a grant needs, unless the pool changed a
    /// thousand times in a row while it looked: then it takes it once.
    cenote::stats stats() const { return gate_->read(); }

    /// Who holds what, oldest first, those last of whom it is not known yet for how long: leases
    /// from the fast lane carry no time before the next sweep. For people who wonder where all the
    /// leases are: it allocates, and looks at all `max` places under the pool's lock.
    std::vector<lease_info> leases() const { return gate_->leases(); }

    /// What is in each place: as many as there may be, and each stays where it is. Looks at them
    /// under the pool's lock, too.
    std::vector<slot_info> slots() const { return gate_->slots(); }

    /// This pool for those who look after pools of any type: a dashboard, a health check.
    pool_control control() const noexcept { return pool_control(gate_); }

    const std::string& name() const noexcept { return gate_->name(); }

    /// The options in force: those the pool was made with, and what resize() and set_breaker() have
    /// changed since.
    options settings() const { return gate_->settings(); }

    /// Whether close() was called. A closed pool refuses every acquire.
    bool closed() const noexcept { return gate_->closed(); }

    /// What the connector threw when the last open failed; null if the last open went well.
    std::exception_ptr open_error() const { return gate_->open_error(); }

    /// Waits until the minimum is open, starting that if `warm_up` did not. False: not by then
    /// (open_error() may say why), or the pool is closed.
    bool wait_ready(std::chrono::nanoseconds timeout,
                    std::source_location at = std::source_location::current()) {
        return gate_->wait_ready(timeout, at);
    }

    /// Everything open now is closed: the idle a few at a time, the leased when they come back. New
    /// ones take over. For a failover, or after the server's settings changed.
    void retire_all() { gate_->retire_all(); }

    /// Everything open now is probed before it is lent again, whatever `probe_after_idle` says;
    /// with a connector that cannot probe it is retired as by retire_all(). For whoever hears that
    /// the other side has changed. Holders who find it out: see lease::discard_and_suspect().
    void suspect_all() noexcept { gate_->suspect_all(); }

    /// From now on `connector` opens: for credentials that are rotated, a server that has moved.
    /// What is open now is retired as by retire_all(), and so is what is being opened. Every
    /// resource is probed, reset, closed and looked at by the connector that opened it, which lives
    /// until the last of its resources and calls is gone.
    ///
    /// The new connector must be of the same kind (asynchronous if the pool is on an executor) and
    /// have the same members as the present one among probe, reset, before_acquire and
    /// before_release; its type may be another. Throws std::invalid_argument if it does not, and
    /// std::bad_alloc; then nothing has changed.
    template <class C>
    void replace_connector(C&& connector) {
        gate_->replace_connector(
            detail::connector_maker<T, std::decay_t<C>>::make(std::forward<C>(connector)));
    }

    /// From now on at most `max` are open. A larger maximum serves those in line at once. With a
    /// smaller one nobody loses a lease: what is idle goes first, longest unused first, then what
    /// comes back, until no more than `max` are left; until then none is opened. Whoever waits for
    /// more than that at once (acquire_many) is refused with `deadlock`.
    ///
    /// Throws invalid_option if options would not allow this `max`: it must be at least 1, min_size
    /// and min_idle; and std::bad_alloc. Then nothing has changed.
    void resize(std::size_t max) { gate_->resize(max); }

    /// Lends nothing, and opens, sweeps and probes nothing of its own accord, until resume().
    /// Whoever waits keeps its place and its deadline; who comes waits. For a controlled failover:
    /// pause, switch the server over, retire_all, resume. Leases that are out are not affected.
    void pause() { gate_->pause(); }
    void resume() { gate_->resume(); }

    /// Lending goes on, but until resume_maintenance() nothing is swept, probed in the background,
    /// refilled or reported as a leak. What an acquire comes across is still looked at: its age,
    /// and how long it was idle. A pool on an executor then needs no timer while no call and no
    /// caller waits, so it does not keep `run()` from returning. Costs the fast lane. For tests,
    /// and for programs that must not be disturbed for a while. Calls do not count: one resume is
    /// enough.
    void suspend_maintenance() { gate_->suspend_maintenance(); }
    void resume_maintenance() { gate_->resume_maintenance(); }

    // The circuit breaker by hand, from any state to any state. See options::breaker for a strategy
    // that does it by itself, and stats().breaker for the present state.

    /// Lends as usual.
    void activate() { gate_->go({.to = breaker_state::active}); }
    /// Refuses everybody who comes, and everybody in line, with `unavailable`. Leases that are out
    /// come back as usual. Until further notice: no strategy is asked whether to recover.
    void deactivate() { gate_->go({.to = breaker_state::inactive, .cool_down = forever}); }
    /// Lets `probes` try at a time and refuses all others. The strategy decides how it goes on;
    /// without one the first success makes the pool active, a failure inactive.
    void recover(std::size_t probes = 1) {
        gate_->go({.to = breaker_state::recovering, .probes = probes});
    }
    /// From now on another strategy decides, without a memory of what happened before; null: only
    /// these calls do. The state stays. Throws invalid_option if the strategy is another pool's.
    void set_breaker(std::shared_ptr<breaker> strategy) { gate_->set_breaker(std::move(strategy)); }

    /// In how long it may be worth while to come again for somebody who was refused with
    /// `unavailable`, `line_full` or `shed`. The exceptions carry the same (pool_error).
    std::chrono::nanoseconds retry_after() const { return gate_->retry_after(); }

    /// Refuses new acquires and everybody in line with `closed`; closes the idle now and the leased
    /// when they come back. Can be called again.
    void close() noexcept { gate_->close(); }

    /// close(), then waits until everything is back and closed, at most for `timeout`. Returns how
    /// many leases were still out.
    std::size_t close(std::chrono::nanoseconds timeout,
                      std::source_location at = std::source_location::current()) noexcept {
        return gate_->close(timeout, at);
    }

    /// close(), with <cenote/asio.hpp>: completes with (boost::system::error_code, leases still
    /// out) when everything is back and closed, or after `timeout`.
    template <class Token>
    auto async_close(std::chrono::nanoseconds timeout, Token&& token);

    /// wait_ready(), with <cenote/asio.hpp>: completes with (boost::system::error_code) when the
    /// minimum is open; with `closed` if the pool is. After `timeout` it completes with
    /// `open_failed` if the last open failed (see open_error()), otherwise with `timed_out`.
    template <class Token>
    auto async_wait_ready(std::chrono::nanoseconds timeout, Token&& token);
    template <class Token>
    auto async_wait_ready(Token&& token);

private:
    friend class per_executor<T>;
    friend struct detail::gate_finder;

    // When the time of an acquire is up: found out only if it has to wait, since that takes a
    // clock.

    auto as_usual() const noexcept {
        return [g = gate_] { return g->default_deadline(); };
    }
    auto in(std::chrono::nanoseconds timeout) const noexcept {
        return [g = gate_, timeout] { return g->deadline_after(timeout); };
    }
    auto as_said(const acquire_options& how) const noexcept {
        return in(how.timeout.value_or(gate_->acquire_timeout()));
    }
    static auto at_the(std::chrono::steady_clock::time_point deadline) noexcept {
        return [deadline] { return deadline; };
    }

    // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved, in a dependent expression
    std::vector<lease<T>> take_many(std::size_t count, std::stop_token stop,
                                    const acquire_options& how, std::source_location at,
                                    errc& why) {
        gate_->check_count(count);
        std::vector<detail::resource*> got(count);
        std::vector<lease<T>> held;
        held.reserve(count);
        detail::wish w{.deadline = as_said(how)(),
                       .stop = std::move(stop),
                       .site = at,
                       .how = gate_->manner_of(how)};
        if (!gate_->acquire_many(w, got, why)) return held;
        for (detail::resource* r : got) {
            held.push_back(lease<T>(r));
            detail::lease_maker::hold_here(held.back());
        }
        return held;
    }

    template <class When>
    // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved, in a dependent expression
    lease<T> take_or_wait(const When& up, std::stop_token stop, std::source_location at,
                          const detail::manner& how = {}) {
        if (auto* r = gate_->take(at, how, detail::this_thread())) return lease<T>(r);
        return wait({.deadline = up(), .stop = std::move(stop), .site = at, .how = how});
    }

    template <class When>
    // NOLINTNEXTLINE(performance-unnecessary-value-param): it is moved, in a dependent expression
    lease<T> take_or_wait(const When& up, std::stop_token stop, std::error_code& error,
                          std::source_location at, const detail::manner& how = {}) {
        error.clear();
        if (auto* r = gate_->take(at, how, detail::this_thread())) return lease<T>(r);
        try {
            errc why{};
            auto* r = gate_->acquire(
                {.deadline = up(), .stop = std::move(stop), .site = at, .how = how}, why);
            if (r == nullptr) error = why;
            return lease<T>(r);
        } catch (const std::bad_alloc&) {
            error = std::make_error_code(std::errc::not_enough_memory);
        } catch (const std::system_error& e) {
            error = e.code();
        }
        return lease<T>();
    }

    lease<T> wait(const detail::wish& w) {
        auto since = gate_->now();
        errc why{};
        if (auto* r = gate_->acquire(w, why)) return lease<T>(r);
        gate_->fail(why, since, w.how.queues);
    }

    detail::gate* gate_;
};

template <class C>
pool(C) -> pool<detail::opened_by<C>>;
template <class C>
pool(C, options) -> pool<detail::opened_by<C>>;

}  // namespace cenote

// Threads that wait for the whole pool, and the end of a pool.
#include <utility>

#include "shell/operations.hpp"

namespace cenote::shell {

using core::instant;
using core::never;

namespace {

/// Waits for a change of the pool, at most until `limit`. May return earlier.
void wait_for_change(keeper& k, pool_guard& lock, instant limit) noexcept
    CENOTE_REQUIRES(k.lock) CENOTE_UNCHECKED_LOCKING {
    if (k.clock == nullptr) return k.pool_waiters.sleep(lock, limit);
    std::uint64_t before = k.pool_waiters.changes();
    lock.unlock();
    bool progress = k.work->make_progress(limit);
    lock.lock();
    if (!progress && k.pool_waiters.changes() == before) k.pool_waiters.sleep(lock);
}

/// Waits until `reached` is true, at most until the deadline. Returns the last value of `reached`.
template <class Reached>
bool wait_until(keeper& k, instant deadline, Reached reached) CENOTE_UNCHECKED_LOCKING {
    pool_guard lock(k.lock);
    k.pool_waiters.begin();
    bool done = reached();
    while (!done && k.now() < deadline) {
        wait_for_change(k, lock, deadline);
        done = reached();
    }
    k.pool_waiters.end();
    return done;
}

/// wait_until() for a pool operation with a timeout, on a thread that the pool may need.
template <class Reached>
void wait_if_allowed(keeper& k, std::chrono::nanoseconds timeout, std::source_location site,
                     Reached reached) {
    if (!wait_until(k, k.now(), reached) && may_block(k, site))
        wait_until(k, core::after(k.now(), std::max(timeout, core::duration{})), reached);
}

/// Waits for connector calls, each at most until its own deadline: they may use what the caller is
/// about to destroy. Also ticks: the thread that has the timer may be this very one, in an
/// observer.
void wait_for_calls(keeper& k, pool_guard& lock) CENOTE_UNCHECKED_LOCKING {
    k.pool_waiters.begin();
    std::size_t own = k.work->calls_here();
    auto busy = [&]() CENOTE_UNCHECKED_LOCKING {
        return calls_in_flight(k) > own || k.events.busy() || k.reports.busy();
    };
    while (busy() && !k.work->is_stuck(own)) {
        instant wake = k.wake_at();
        wait_for_change(k, lock, wake);
        if (wake > k.now()) continue;
        lock.unlock();
        k.tick();
        lock.lock();
    }
    k.pool_waiters.end();
}

/// options::refuse_on_loop.
bool refuses_on_loop(const options& settings) {
#ifdef NDEBUG
    constexpr bool unless_told = false;
#else
    constexpr bool unless_told = true;
#endif
    return settings.refuse_on_loop.value_or(unless_told);
}

}  // namespace

bool refuses_to_block(const keeper& k) {
    return refuses_on_loop(k.fixed) && k.work->needs_this_thread();
}

bool may_block(keeper& k, std::source_location site) noexcept {
    if (!k.work->needs_this_thread()) return true;
    k.events.deliver_now({.kind = event_kind::loop_blocked, .pool = k.name(), .site = site});
    return !refuses_on_loop(k.fixed);
}

void wait_warm(keeper& k) {
    std::exception_ptr error;
    wait_until(k, never, [&]() CENOTE_REQUIRES(k.lock) {
        error = k.opens.first_error();
        return k.machine.ready() || error != nullptr;
    });
    if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace cenote::shell

namespace cenote::detail {

using core::instant;
using shell::keeper;
using shell::keeper_of;
using shell::pool_guard;

void gate::close() noexcept {
    keeper& k = keeper_of(this);
    try {
        k.ensure_restarted();
    } catch (const std::exception&) {
        // No memory to restart after a fork. The pool will be closed when it restarts.
        pool_guard here(k.lock);
        return shelf_.raise(pool_closed);
    }
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        k.lane.close(now, pool_closed);
        k.leases.inspect(now, false);
        k.machine.close(now, k.out);
    });
}

std::size_t gate::close(std::chrono::nanoseconds timeout, std::source_location site) noexcept {
    close();
    keeper& k = keeper_of(this);
    shell::wait_if_allowed(k, timeout, site,
                           [&]() CENOTE_REQUIRES(k.lock) { return k.machine.drained(); });
    pool_guard here(k.lock);
    return k.machine.count(core::slot_state::leased);
}

bool gate::wait_ready(std::chrono::nanoseconds timeout, std::source_location site) {
    keeper& k = keeper_of(this);
    k.ensure_ready();
    k.enter_with_room([&](instant now) CENOTE_REQUIRES(k.lock) { k.machine.warm(now, k.out); });
    bool ready = false;
    shell::wait_if_allowed(k, timeout, site, [&]() CENOTE_REQUIRES(k.lock) {
        ready = k.machine.ready() && !k.machine.closed();
        return ready || k.machine.closed();
    });
    return ready;
}

void gate::shut_down() noexcept {
    close();
    keeper& k = keeper_of(this);
    if (k.forks.must_restart()) {  // in the child of a fork, without memory
        k.leave_clock();
        return shell::drop_strategy(k);
    }
    {
        pool_guard here(k.lock);
        shell::wait_for_calls(k, here);
        k.work->stop(here);
    }
    k.leave_clock();
    k.tick();  // makes the calls that no thread was left for
    // A waiter that has not asked yet why it was refused keeps the keeper, but not the connector:
    // that ends here, or with its last call and its last resource.
    connector_ref connector;
    {
        pool_guard here(k.lock);
        k.connector().swap(connector);
    }
    shell::drop_strategy(k);
    k.drop_ref();
}

}  // namespace cenote::detail

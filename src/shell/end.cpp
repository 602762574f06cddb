// Waiting for the whole pool, as a thread, and the pool's end.
#include <utility>

#include "shell/around.hpp"
#include "shell/enter.hpp"

namespace cenote::shell {

using core::instant;
using core::never;

namespace {

bool refuses_on_loop(const options& settings) {
#ifdef NDEBUG
    constexpr bool unless_told = false;
#else
    constexpr bool unless_told = true;
#endif
    return settings.refuse_on_loop.value_or(unless_told);
}

/// Waits for a change, at most until `limit`; may return before.
void let_something_happen(keeper& k, holding& lock, instant limit) noexcept
    CENOTE_REQUIRES(k.lock) CENOTE_UNCHECKED_LOCKING {
    if (k.clock == nullptr) return k.watchers.sleep(lock, limit);
    std::uint64_t before = k.watchers.changes();
    lock.unlock();
    bool done = k.work->do_something(limit);
    lock.lock();
    if (!done && k.watchers.changes() == before) k.watchers.sleep(lock);
}

/// Waits until `until` says so, at most to the deadline. False: it did not.
template <class Until>
bool watch(keeper& k, instant deadline, Until until) CENOTE_UNCHECKED_LOCKING {
    holding lock(k.lock);
    k.watchers.begin();
    bool reached = until();
    while (!reached && k.now() < deadline) {
        let_something_happen(k, lock, deadline);
        reached = until();
    }
    k.watchers.end();
    return reached;
}

/// Connector calls may use what the caller is about to destroy, so they are waited for; each of
/// them at most until its own deadline. The clock is minded here, too: what minds it may be the
/// very thread that is doing this, in an observer.
void wait_for_calls(keeper& k, holding& lock) CENOTE_UNCHECKED_LOCKING {
    k.watchers.begin();
    std::size_t own = k.work->calls_here();
    auto busy = [&]() CENOTE_UNCHECKED_LOCKING { return k.news.busy() || k.strategy.busy(); };
    while ((calls_in_flight(k) > own || busy()) && !k.work->helpless(own)) {
        instant wake = k.wake_at();
        let_something_happen(k, lock, wake);
        if (wake > k.now()) continue;
        lock.unlock();
        k.tick();
        lock.lock();
    }
    k.watchers.end();
}

}  // namespace

bool cannot_wait_here(const keeper& k) {
    return refuses_on_loop(k.fixed) && k.work->needs_this_thread();
}

bool may_block(keeper& k, std::source_location site) noexcept {
    if (!k.work->needs_this_thread()) return true;
    k.news.tell_now({.kind = event_kind::loop_blocked, .pool = k.name(), .site = site});
    return !refuses_on_loop(k.fixed);
}

void wait_warm(keeper& k) {
    watch(k, never, [&]() CENOTE_REQUIRES(k.lock) {
        return k.machine.ready() || k.opens.first_error() != nullptr;
    });
    std::exception_ptr error;
    {
        holding here(k.lock);
        error = k.opens.first_error();
    }
    if (error != nullptr) std::rethrow_exception(error);
}

void keeper::end() noexcept {
    close();
    if (forks.is_behind()) {
        if (clock != nullptr) clock->remove(*this);
        return let_go_of_strategy(*this);
    }
    {
        holding here(lock);
        wait_for_calls(*this, here);
        work->stop(here);
    }
    if (clock != nullptr) clock->remove(*this);
    tick();  // and does what no thread was left for
    // The keeper may be kept by a waiter that has not yet asked why it got nothing: the connector
    // is not. It ends here, or with the last call and the last resource of its own.
    detail::connector_ref connector;
    {
        holding here(lock);
        connector.swap(connector_);
    }
    let_go_of_strategy(*this);
    drop_ref();
}

void keeper::drop_ref() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    detail::wait_for_marks(this);
    delete this;
}

}  // namespace cenote::shell

namespace cenote::detail {

using core::instant;
using shell::keeper;
using shell::keeper_of;

void gate::leave() noexcept { keeper_of(this).end(); }

void gate::close() noexcept {
    keeper& k = keeper_of(this);
    if (!k.try_to_catch_up()) {
        // There is no memory to begin again after a fork: it will be closed when it begins.
        shell::holding here(k.lock);
        return shelf_.raise(pool_closed);
    }
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        k.lane.close(now, pool_closed);
        k.leases.look(now, false);
        k.machine.close(now, k.out);
    });
}

std::size_t gate::close(std::chrono::nanoseconds timeout, std::source_location site) noexcept {
    close();
    keeper& k = keeper_of(this);
    auto drained = [&]() CENOTE_REQUIRES(k.lock) { return k.machine.drained(); };
    if (!shell::watch(k, k.now(), drained) && shell::may_block(k, site))
        shell::watch(k, deadline_after(timeout), drained);
    shell::holding here(k.lock);
    return k.machine.count(core::slot_state::leased);
}

bool gate::wait_ready(std::chrono::nanoseconds timeout, std::source_location site) {
    keeper& k = keeper_of(this);
    k.get_ready();
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        k.machine.make_room(k.out);
        k.machine.warm(now, k.out);
    });
    bool ready = false;
    auto known = [&]() CENOTE_REQUIRES(k.lock) {
        ready = k.machine.ready() && !k.machine.closed();
        return ready || k.machine.closed();
    };
    if (!shell::watch(k, k.now(), known) && shell::may_block(k, site))
        shell::watch(k, deadline_after(timeout), known);
    return ready;
}

}  // namespace cenote::detail

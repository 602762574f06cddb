// The gate of a pool: what the public templates call. Its fast lane is inline; every other member
// is compiled into the library.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <span>
#include <stop_token>
#include <system_error>
#include <vector>

#include "cenote/detail/any_connector.hpp"
#include "cenote/detail/mark.hpp"
#include "cenote/detail/processor.hpp"
#include "cenote/detail/resource.hpp"
#include "cenote/detail/shelf.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/error.hpp"
#include "cenote/options.hpp"
#include "cenote/stats.hpp"

namespace cenote::detail {

using instant = std::chrono::steady_clock::time_point;

/// An acquire by a thread.
struct acquire_request {
    std::chrono::nanoseconds timeout{-1};  // as in wait_request
    instant deadline = no_deadline;
    std::stop_token stop{};
    std::source_location site{};
    lease_terms terms{};
    const trace_context* trace = nullptr;
};

/// Why an acquire by a thread got nothing.
struct refusal {
    errc error{};
    instant since{};  // when the caller came
};

/// All operations on one pool. The one derived class is the keeper (src/shell/keeper.hpp), which
/// adds the pool's state under its lock. Each operation that is not inline here is defined once, in
/// the file of src/shell that has its name or its group, and works on the keeper's parts.
class gate {
public:
    /// Makes the keeper of a pool and starts its warm-up. Throws invalid_option, std::bad_alloc,
    /// and with warm_up::wait the exception of the first failed open.
    static gate* open(const options& settings, std::unique_ptr<blocking_connector> connector);

    /// Ends the pool object: closes the pool and waits for running connector calls. The keeper
    /// lives until the last lease has ended.
    void shut_down() noexcept;

    // The fast lane.

    /// A resource from the shelf; null if the cell of this processor is empty. `holder`: the number
    /// of the thread that takes it, or 0 if a coroutine or an operation does.
    resource* take(std::source_location site, std::uint64_t holder) noexcept {
        return take_as(site, nullptr, 0, holder);
    }
    resource* take(std::source_location site, const lease_terms& terms,
                   std::uint64_t holder) noexcept {
        return take_as(site, terms.task, terms.leak_after.count(), holder);
    }

    /// Ends a lease.
    void put(resource* r) noexcept {
        if (has_before_release_ || !put_on_shelf(r)) [[unlikely]]
            release(r);
    }

    /// Whether take() cannot succeed for a caller that comes now: a reason is raised.
    bool lane_is_shut() const noexcept { return shelf_.raised() != 0; }
    /// Whether a waiter is owed the next resource. Without the lock this is a hint: it says which
    /// path to try first.
    bool has_waiters() const noexcept { return (shelf_.raised() & waiter_owed) != 0; }
    /// Whether a resource is idle or on the shelf. A hint, too.
    bool may_have_ready() const noexcept;

    // Leases (acquire.cpp, release.cpp).

    /// Waits for a lease. Null: `why` is the reason. Throws std::bad_alloc, and std::system_error
    /// if the pool's first thread cannot be started.
    resource* acquire(const acquire_request& request, refusal& why);
    /// A lease if a resource is ready. `holder`: as for take().
    resource* try_acquire(std::source_location site, const lease_terms& terms,
                          std::uint64_t holder);
    /// Throws std::invalid_argument if `count` is not between 1 and the maximum.
    void check_count(std::size_t count) const;
    /// Fills all of `into` and returns true, or nothing.
    bool acquire_many(const acquire_request& request, std::span<resource*> into, refusal& why);
    /// Ends a lease that the borrower was granted but could not use.
    void put_unused(resource* r) noexcept {
        r->state = condition::unused;
        release(r);
    }
    /// Ends a lease and closes its resource, because of an error.
    void discard(resource* r, const std::exception_ptr& cause) noexcept;
    /// Takes a leased resource out of the pool. The caller owns it.
    std::unique_ptr<resource> detach(resource* r) noexcept;
    /// Throws the exception for `why`, with an explaining text. `queues`: whether the caller would
    /// have waited for other leases to end.
    [[noreturn]] void fail(const refusal& why, bool queues = true, std::size_t wanted = 1);
    /// Tells observers that `who` is refused.
    void report_refusal(const waiter& who) noexcept;

    // Waiters that are not threads (acquire_async.cpp).

    /// Begins a wait and returns at once. True: the waiter will be notified. False: it has `got` a
    /// resource, or `error` is the reason.
    bool begin_wait(waiter& who);
    /// Ends a wait with `canceled` unless it has ended. The waiter is notified in both cases.
    void cancel(waiter& who) noexcept;
    /// Withdraws a waiter that is being destroyed. True: it will not be notified. False: it was
    /// notified, or a thread is about to do it.
    bool withdraw(waiter& who) noexcept;
    /// Withdraws a waiter that is still in this thread's list of waiters to notify, when the code
    /// of a waiter notified earlier destroys it. False: it is not in the list.
    static bool withdraw_pending(waiter& who) noexcept;
    /// Drops the reference of a waiter that was refused (`waiter::keeps_keeper`).
    void drop_reference() noexcept;
    /// Whether the connector has a before_acquire that may block, so that it must not run on an
    /// event loop.
    bool before_acquire_may_block() const noexcept { return before_acquire_may_block_; }

    // Requests.

    static lease_terms terms_of(const acquire_options& o) noexcept {
        constexpr std::chrono::nanoseconds pools{0};
        constexpr std::chrono::nanoseconds at_once{1};
        return {.task = o.task,
                .leak_after = o.leak_after ? std::max(*o.leak_after, at_once) : pools,
                .rank = o.priority,
                .queues = o.queue};
    }
    /// As in wait_request: options::acquire_timeout unless the acquire has limits of its own.
    std::chrono::nanoseconds timeout_of(const acquire_options& o) const noexcept {
        constexpr std::chrono::nanoseconds at_once{0};
        constexpr std::chrono::nanoseconds until_deadline{-1};
        if (o.deadline && !o.timeout) return until_deadline;
        return std::max(o.timeout.value_or(acquire_timeout_), at_once);
    }
    static const trace_context* trace_of(const acquire_options& o) noexcept {
        return o.trace ? &o.trace : nullptr;
    }
    static instant deadline_of(const acquire_options& o) noexcept {
        return o.deadline.value_or(no_deadline);
    }
    wait_request request_of(const acquire_options& o, std::source_location site) noexcept {
        return {this, wait_target::lease, timeout_of(o), deadline_of(o),
                site, terms_of(o),        o.stop,        trace_of(o)};
    }
    wait_request request_of(std::source_location site) noexcept {
        return {this, wait_target::lease, acquire_timeout_, no_deadline, site};
    }
    instant now() const noexcept;
    std::chrono::nanoseconds acquire_timeout() const noexcept { return acquire_timeout_; }

    // The whole pool: what pool and pool_control offer (control.cpp, close.cpp, inspect.cpp).

    void retire_all();
    void suspect_all() noexcept;
    /// Suspects every resource that is as old as `r`, which is leased.
    void suspect(const resource* r) noexcept;
    /// Throws std::invalid_argument if `next` cannot take the place of the present connector.
    void replace_connector(std::unique_ptr<any_connector> next);
    void resize(std::size_t max);
    void pause();
    void resume();
    void suspend_maintenance();
    void resume_maintenance();
    void move_breaker(const breaker_move& where);
    void set_breaker(std::shared_ptr<breaker> strategy);
    std::chrono::nanoseconds retry_after() const;
    void close() noexcept;
    /// Returns how many leases are still out at the deadline.
    std::size_t close(std::chrono::nanoseconds timeout, std::source_location site) noexcept;
    bool wait_ready(std::chrono::nanoseconds timeout, std::source_location site);
    bool closed() const noexcept;
    std::exception_ptr open_error() const;
    options settings() const;
    stats read() const;
    std::string endpoint() const;
    std::vector<lease_info> leases() const;
    std::vector<waiter_info> waiters() const;
    std::vector<slot_info> slots() const;
    const std::string& name() const noexcept { return name_; }

private:
    /// Stores only a value that has changed: the exchange that follows waits for stores, not for
    /// loads.
    template <class V>
    static void update(std::atomic<V>& in, std::type_identity_t<V> value) noexcept {
        if (in.load(std::memory_order_relaxed) != value) in.store(value, std::memory_order_relaxed);
    }

    resource* take_as(std::source_location site, const char* task, std::int64_t leak_after,
                      std::uint64_t holder) noexcept {
        bool must_return = false;
        resource* r = shelf_.take(processor(), must_return);
        if (r == nullptr) return nullptr;
        if (must_return) [[unlikely]]
            return return_taken(r);
        trace& seen = *r->seen;
        std::uint64_t hits = seen.hits.load(std::memory_order_relaxed) + 1;
        seen.site.store(site, std::memory_order_relaxed);
        update(seen.leased_at, 0);
        update(seen.task, task);
        update(seen.leak_after, leak_after);
        update(seen.holder, holder);
        // Last: from now on other threads take the values above for those of this lease.
        seen.hits.store(hits, std::memory_order_release);
        if ((hits & sample_mask_) == 0) [[unlikely]]
            return check_taken(r);
        return r;
    }

    /// Puts a clean resource on the shelf. False: the lease must end at the keeper. Inlined
    /// everywhere: this is the fast lane.
    [[gnu::always_inline]] bool put_on_shelf(resource* r) noexcept {
        trace& seen = *r->seen;
        std::uint64_t hits = seen.hits.load(std::memory_order_relaxed);
        bool plain = r->state == condition::clean &&
                     hits < seen.limit.load(std::memory_order_relaxed) &&
                     seen.leased_at.load(std::memory_order_relaxed) == 0;
        gate_mark* mark = this_threads_mark;
        if (!plain || mark == nullptr) [[unlikely]]
            return false;
        // Counted first: once it is on the shelf, another thread may take it.
        std::uint64_t puts = seen.puts.load(std::memory_order_relaxed);
        seen.puts.store(puts + 1, std::memory_order_release);
        const gate* outer = mark->enter(this);
        resource* back = shelf_.put(processor(), r);
        if (back == nullptr) [[likely]]
            mark->leave(outer);
        else return_and_leave(back, outer);
        return true;
    }

    // The slow parts of the fast lane. Each is the last call of its caller, which then need not
    // save registers.

    /// Returns a taken resource to the keeper (rule 2 of the shelf), and null.
    resource* return_taken(resource* r) noexcept;
    /// Returns a resource that is not on the shelf to the keeper, and ends this thread's mark.
    void return_and_leave(resource* r, const gate* outer) noexcept;
    /// Samples the time of a lease, and calls before_acquire. Null: the resource was unfit.
    resource* check_taken(resource* r) noexcept;
    void release(resource* r) noexcept;
    /// `error`: the exception because of which the lease ends, or null.
    void release_slowly(resource* r, const std::exception_ptr* error) noexcept;

protected:
    gate(const options& settings, std::unique_ptr<any_connector> connector, std::uint32_t reasons);
    ~gate() = default;

    /// One lease in this many of a resource is timed, for the histogram of hold times.
    static constexpr std::uint64_t sample = 256;

    basic_shelf<resource> shelf_;
    connector_ref connector_;  // the one that opens; changes under the keeper's lock
    std::chrono::nanoseconds acquire_timeout_;
    std::string name_;
    std::uint64_t sample_mask_;  // which leases go through check_taken(); all with before_acquire
    bool has_before_acquire_;
    bool has_before_release_;
    bool before_acquire_may_block_;
};

}  // namespace cenote::detail

// What the templates see of the keeper: the fast lane inline, everything else behind a call.
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

/// What a thread that acquires asks for.
struct acquire_request {
    instant deadline{};
    std::stop_token stop{};
    std::source_location site{};
    lease_terms terms{};
};

/// The door to one pool. Its one derived class is the keeper.
class gate {
public:
    /// Makes the keeper of a pool and starts its warm-up. Throws invalid_option, std::bad_alloc,
    /// and with warm_up::wait what the first failed open threw.
    static gate* open(const options& settings, std::unique_ptr<blocking_connector> connector);

    /// The pool is gone: closes it and waits for connector calls in flight. The keeper stays until
    /// the last lease is back.
    void leave() noexcept;

    /// A resource from the shelf, null if none is at hand. `holder`: the thread that takes it, if
    /// it is one that could be found waiting.
    resource* take(std::source_location site, std::uint64_t holder) noexcept {
        return take_as(site, nullptr, 0, holder);
    }
    resource* take(std::source_location site, const lease_terms& terms,
                   std::uint64_t holder) noexcept {
        return take_as(site, terms.task, terms.leak_after.count(), holder);
    }

    /// The end of a lease.
    void put(resource* r) noexcept {
        if (looks_before_release_ || !lay_back(r)) [[unlikely]]
            release(r);
    }

    /// The end of a lease whose borrower went away before it could use it.
    void put_unused(resource* r) noexcept {
        r->state = condition::unused;
        release(r);
    }
    /// The end of a lease and of its resource, because of an error.
    void discard(resource* r, const std::exception_ptr& cause) noexcept;

    /// Waits for a lease. Null: `why` says why not. Throws std::bad_alloc and what starting a
    /// thread throws.
    resource* acquire(const acquire_request& r, errc& why);
    /// A lease if one is ready. `holder`: as for take().
    resource* try_acquire(std::source_location site, const lease_terms& terms,
                          std::uint64_t holder);
    /// Throws std::invalid_argument if so many can never be had at once.
    void check_count(std::size_t count) const;
    /// Fills `into`, or nothing.
    bool acquire_many(const acquire_request& r, std::span<resource*> into, errc& why);
    static lease_terms terms_of(const acquire_options& o) noexcept {
        constexpr std::chrono::nanoseconds pools{0};
        constexpr std::chrono::nanoseconds at_once{1};
        return {.task = o.task,
                .leak_after = o.leak_after ? std::max(*o.leak_after, at_once) : pools,
                .rank = o.priority,
                .queues = o.queue};
    }

    /// The earlier one of `timeout` (or options::acquire_timeout) and `deadline`.
    instant deadline_of(const acquire_options& o) const noexcept {
        if (!o.deadline) return deadline_after(o.timeout.value_or(acquire_timeout_));
        return o.timeout ? std::min(*o.deadline, deadline_after(*o.timeout)) : *o.deadline;
    }
    /// A request for a lease by a coroutine or an Asio operation.
    wait_request request_of(const acquire_options& o, std::source_location site) noexcept {
        constexpr std::chrono::nanoseconds none{0};
        wait_request r{
            this,  wait_target::lease, o.timeout.value_or(acquire_timeout_), {}, site, terms_of(o),
            o.stop};
        if (!o.deadline) {
            r.timeout = std::max(r.timeout, none);
        } else {
            r.timeout = std::chrono::nanoseconds{-1};
            r.deadline = deadline_of(o);
        }
        return r;
    }
    wait_request request_of(std::source_location site) noexcept {
        return {this, wait_target::lease, acquire_timeout_, {}, site};
    }

    // For those who do not wait as threads.

    /// Like acquire, but returns at once. True: it waits, and will be notified. False: `got`, or
    /// `error` says why not.
    bool ask(waiter& who);
    /// Ends a wait with `canceled`, if it has not ended. It is notified either way.
    void cancel(waiter& who) noexcept;
    /// Takes somebody out who is going away. True: it will not be notified. False: it was notified,
    /// or is about to be.
    bool withdraw(waiter& who) noexcept;
    /// The same for somebody whom this thread is about to notify, and who is going away in what
    /// another one does whom it has notified before.
    static bool take_back(waiter& who) noexcept;
    /// Tells observers that somebody is refused.
    void refused(errc why) noexcept;
    /// Lets go of what a waiter kept that was refused (`waiter::keeps_keeper`).
    void forget() noexcept;
    /// Whether a connector wants to look at each lease, and not on an event loop.
    bool looks_elsewhere() const noexcept { return looks_elsewhere_; }
    /// Nothing lies on the shelf, or it is not for those who come now.
    bool lane_is_shut() const noexcept { return shelf_.raised() != 0; }
    /// The fast lane is shut, because a waiter is owed the next resource. Without the lock this is
    /// a hint: it says which way is worth trying first.
    bool has_waiters() const noexcept { return (shelf_.raised() & somebody_waits) != 0; }
    /// A resource is idle, or lies on the shelf. A hint, too.
    bool may_have_ready() const noexcept;

    /// Takes the resource out of the pool; the caller owns it.
    std::unique_ptr<resource> detach(resource* r) noexcept;

    /// Throws the exception for `why`, with the text that explains it. `queues`: whether the caller
    /// would have waited for leases of others.
    [[noreturn]] void fail(errc why, instant since, bool queues = true, std::size_t wanted = 1);

    instant now() const noexcept;
    instant deadline_after(std::chrono::nanoseconds timeout) const noexcept;
    instant default_deadline() const noexcept { return deadline_after(acquire_timeout_); }
    std::chrono::nanoseconds acquire_timeout() const noexcept { return acquire_timeout_; }
    const std::string& name() const noexcept { return name_; }

    void retire_all();
    void suspect_all() noexcept;
    /// Everything that is as old as `r`, which is leased.
    void suspect(const resource* r) noexcept;
    /// Throws std::invalid_argument if it cannot take the place of the present one.
    void replace_connector(std::unique_ptr<any_connector> next);
    void resize(std::size_t max);
    void pause();
    void resume();
    void suspend_maintenance();
    void resume_maintenance();
    void go(const breaker_move& where);
    void set_breaker(std::shared_ptr<breaker> strategy);
    std::chrono::nanoseconds retry_after() const;
    void close() noexcept;
    /// How many leases are still out at the deadline.
    std::size_t close(std::chrono::nanoseconds timeout, std::source_location site) noexcept;
    bool wait_ready(std::chrono::nanoseconds timeout, std::source_location site);
    bool closed() const noexcept;
    std::exception_ptr open_error() const;
    options settings() const;
    stats read() const;
    std::vector<lease_info> leases() const;
    std::vector<slot_info> slots() const;

private:
    /// Stores what is not there already: the exchange to come waits for stores, and not for loads.
    template <class V>
    static void note(std::atomic<V>& in, std::type_identity_t<V> value) noexcept {
        if (in.load(std::memory_order_relaxed) != value) in.store(value, std::memory_order_relaxed);
    }

    resource* take_as(std::source_location site, const char* task, std::int64_t leak_after,
                      std::uint64_t holder) noexcept {
        bool must_hand_in = false;
        resource* r = shelf_.take(processor(), must_hand_in);
        if (r == nullptr) return nullptr;
        if (must_hand_in) [[unlikely]]
            return hand_in_taken(r);
        trace& seen = *r->seen;
        std::uint64_t hits = seen.hits.load(std::memory_order_relaxed) + 1;
        seen.site.store(site, std::memory_order_relaxed);
        note(seen.leased_at, 0);
        note(seen.task, task);
        note(seen.leak_after, leak_after);
        note(seen.holder, holder);
        // Last: from now on others take the above for this lease's.
        seen.hits.store(hits, std::memory_order_release);
        if ((hits & sample_mask_) == 0) [[unlikely]]
            return taken(r);
        return r;
    }

protected:
    /// The end of a lease that nothing is to be said about. False: it is not one of those. Inlined
    /// wherever it is used: this is the fast lane.
    [[gnu::always_inline]] bool lay_back(resource* r) noexcept {
        trace& seen = *r->seen;
        std::uint64_t hits = seen.hits.load(std::memory_order_relaxed);
        bool plain = r->state == condition::clean &&
                     hits < seen.limit.load(std::memory_order_relaxed) &&
                     seen.leased_at.load(std::memory_order_relaxed) == 0;
        gate_mark* mark = this_threads_mark;
        if (!plain || mark == nullptr) [[unlikely]]
            return false;
        // Counted before it can be taken again, and taken back if it does not reach the shelf.
        std::uint64_t puts = seen.puts.load(std::memory_order_relaxed);
        seen.puts.store(puts + 1, std::memory_order_release);
        const gate* outer = mark->enter(this);
        resource* back = shelf_.put(processor(), r);
        if (back == nullptr) [[likely]]
            mark->leave(outer);
        else hand_in_and_leave(back, outer);
        return true;
    }

    gate(const options& settings, std::unique_ptr<any_connector> connector, std::uint32_t reasons);
    ~gate() = default;

    /// Every so many leases of a resource take the precise way, for the histogram of hold times.
    static constexpr std::uint64_t sample = 256;

    // The slow ways. Each is the last thing its caller does, who then need not save any registers.

    /// A resource that is on the shelf no more and not for the one who took it. Returns null.
    resource* hand_in_taken(resource* r) noexcept;
    /// One that did not get onto the shelf, and the end of this thread's mark.
    void hand_in_and_leave(resource* r, const gate* outer) noexcept;
    /// One that was just taken.
    resource* taken(resource* r) noexcept;
    void release(resource* r) noexcept;

    basic_shelf<resource> shelf_;
    connector_ref connector_;  // the one that opens; changes under the keeper's lock
    std::chrono::nanoseconds acquire_timeout_;
    std::string name_;
    std::uint64_t sample_mask_;  // which leases take the precise way: all, if somebody looks
    bool looks_before_acquire_;  // the connector has these hooks
    bool looks_before_release_;
    bool looks_elsewhere_;  // and the first is not for where somebody waits without a thread
};

}  // namespace cenote::detail

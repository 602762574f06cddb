// One pooled resource as the compiled library sees it, and the trace that shows its present lease.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#include "cenote/detail/any_connector.hpp"
#include "cenote/detail/process.hpp"

namespace cenote::detail {

class gate;

/// What other threads can see of a slot's lease, on one cache line per slot. It lives as long as
/// the keeper. Any thread may read it. The holder of the lease writes it (relaxed), except `limit`,
/// which is the keeper's, and `leased_at`, which the keeper may fill in. A lease from the shelf
/// begins when its holder counts the hit and ends when it counts the put; the other members belong
/// to that lease in between.
struct alignas(64) trace {
    std::atomic<std::uint64_t> hits{0};  // leases taken from the shelf
    std::atomic<std::uint64_t> puts{0};  // leases put back on it
    std::atomic<std::source_location> site{};
    std::atomic<std::int64_t> leased_at{0};  // steady clock; 0: some time after the last sweep
    std::atomic<std::uint64_t> limit{0};     // at this number of hits a release goes to the keeper
    std::atomic<const char*> task{nullptr};
    std::atomic<std::int64_t> leak_after{0};  // nanoseconds; 0: the pool's
    std::atomic<std::uint64_t> holder{0};     // the thread that took it last; 0: unknown

    static_assert(std::atomic<std::source_location>::is_always_lock_free);
};

/// How a lease ends; the values of core::condition.
enum class condition : std::uint8_t { clean, dirty, discard, rejected, unfit, broken, unused };

/// The base of every pooled resource. It belongs to its present holder: a borrower, the shelf, the
/// keeper, or the worker that makes a connector's call on it.
struct alignas(64) resource {  // on a shared line, neighbors would slow down each other's holders
    resource() = default;
    resource(const resource&) = delete;
    resource& operator=(const resource&) = delete;
    virtual ~resource() = default;

    /// Destroys the user's object. The block around it stays until its slot is vacant.
    virtual void destroy() noexcept = 0;

    gate* home = nullptr;
    trace* seen = nullptr;
    connector_ref made_by;                            // opened it, and probes, resets and closes it
    std::uint64_t touches_swept = ~std::uint64_t{0};  // hits and puts at the last sweep
    std::uint32_t slot = 0;
    process_number process = no_process;  // in which it was opened
    condition state = condition::clean;
    bool owes = false;  // a reset, which its next user makes

    // Guarded by the keeper's lock. Bits: a small T then fits on the same cache line.
    bool busy : 1 = false;    // a worker is in a connector's call on it
    bool orphan : 1 = false;  // its slot has gone on without it: close it, then free it

    // Of the last lease that the keeper granted, written before the lease begins. A lease from the
    // shelf writes nothing here: it counts a hit, and by that the two no longer apply.
    bool opened_here = false;  // the acquire waited until the resource was opened
    resource* next_orphan = nullptr;
    std::chrono::nanoseconds waited{};
    std::uint64_t hits_at_grant = 0;

    /// Whether the present lease is the one that the keeper granted.
    bool is_from_keeper() const noexcept {
        return hits_at_grant == seen->hits.load(std::memory_order_relaxed);
    }
};

template <class T>
struct resource_of final : resource {
    /// Makes the T from what `open` returns. `open` returns a T, so nothing is moved and no other
    /// constructor of T is considered.
    template <class Open>
    explicit resource_of(const Open& open) : value(open()) {
        static_assert(std::is_same_v<std::remove_cv_t<decltype(open())>, std::remove_cv_t<T>>);
    }
    ~resource_of() override { resource_of::destroy(); }
    resource_of(const resource_of&) = delete;
    resource_of& operator=(const resource_of&) = delete;

    void destroy() noexcept override {
        if (std::exchange(present, false)) std::destroy_at(std::addressof(value));
    }

    union {
        T value;  // in a union, so that it can be destroyed before the block around it
    };
    bool present = true;
};

}  // namespace cenote::detail

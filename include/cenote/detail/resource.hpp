// One pooled resource as the compiled library sees it, and what may be seen of it while it is lent.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#include "cenote/detail/any_connector.hpp"
#include "cenote/detail/process.hpp"

namespace cenote::detail {

class gate;

/// What the holder of a slot's resource leaves for others to see. One cache line per slot, which
/// lives as long as the pool's keeper; only the holder writes (relaxed), except for `limit`, which
/// is the keeper's, and `leased_at`, which it fills in; anybody may read. A lease begins with its
/// hit and ends with its put, and in between the rest belongs to it.
struct alignas(64) trace {
    std::atomic<std::uint64_t> hits{0};  // leases taken from the shelf
    std::atomic<std::uint64_t> puts{0};  // leases put back on it
    std::atomic<std::source_location> site{};
    std::atomic<std::int64_t> leased_at{0};  // steady clock; 0: some time after the last sweep
    std::atomic<std::uint64_t> limit{0};     // at so many hits it must go through the keeper
    std::atomic<const char*> task{nullptr};
    std::atomic<std::int64_t> leak_after{0};  // nanoseconds; 0: the pool's
    std::atomic<std::uint64_t> holder{0};     // the thread that took it last; 0: unknown

    static_assert(std::atomic<std::source_location>::is_always_lock_free);
};

/// How a lease comes back; the values of core::condition.
enum class condition : std::uint8_t { clean, dirty, discard, rejected, unfit, broken, unused };

/// Base of every pooled resource. Belongs to whoever holds it: a borrower, the shelf, the keeper or
/// the worker that calls the connector on it.
struct alignas(64) resource {  // neighbours on one line would slow down each other's holders
    resource() = default;
    resource(const resource&) = delete;
    resource& operator=(const resource&) = delete;
    virtual ~resource() = default;

    /// Ends the user's object. The rest of the block stays until its slot is free.
    virtual void destroy() noexcept = 0;

    gate* home = nullptr;
    trace* seen = nullptr;
    connector_ref made_by;                            // the connector that opened and tends it
    std::uint64_t touches_swept = ~std::uint64_t{0};  // hits and puts at the last sweep
    std::uint32_t slot = 0;
    process_number process = no_process;  // where it was opened
    condition state = condition::clean;
    bool owes = false;  // a reset, which its next use makes

    // Guarded by the keeper's lock. In one byte: with all this a small T is on the same line.
    bool busy : 1 = false;    // a worker is in a connector call on it
    bool orphan : 1 = false;  // nobody waits for it any more: close it and forget it
    resource* next_orphan = nullptr;
};

template <class T>
struct resource_of final : resource {
    /// Holds what `open` returns. That is a T, so it is made right here: nothing is moved, and no
    /// constructor of T that would take anything has a say.
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
        T value;  // in a union, so that it can end before the block around it
    };
    bool present = true;
};

}  // namespace cenote::detail

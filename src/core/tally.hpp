// Counters with one writer that other threads may read while they change.
//
// The machine is single-threaded: its caller holds a lock. `stats()` must not need that lock, so
// the numbers that it reads are tallies, and the keeper brackets every change with a sequence
// number. Release stores and acquire loads (plain moves on x86) instead of fences, so that
// ThreadSanitizer can follow.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "cenote/stats.hpp"

namespace cenote::core {

class tally {
public:
    std::uint64_t get() const noexcept { return value_.load(std::memory_order_acquire); }
    /// Always inlined: a call would cost more than the addition.
    [[gnu::always_inline]] void add(std::uint64_t n) noexcept {
        set(value_.load(std::memory_order_relaxed) + n);
    }
    void set(std::uint64_t n) noexcept { value_.store(n, std::memory_order_release); }
    [[gnu::always_inline]] void operator++() noexcept { add(1); }
    [[gnu::always_inline]] void operator--() noexcept { add(~std::uint64_t{0}); }

private:
    std::atomic<std::uint64_t> value_{0};
};

/// A flag with one writer.
class flag {
public:
    operator bool() const noexcept { return value_.load(std::memory_order_acquire); }
    void set(bool on) noexcept { value_.store(on, std::memory_order_release); }

private:
    std::atomic<bool> value_{false};
};

/// A histogram made of tallies.
class tally_histogram {
public:
    [[gnu::always_inline]] void record(std::chrono::nanoseconds value) noexcept {
        ++buckets_[histogram::bucket_of(value)];
    }

    void read(histogram& out) const noexcept {
        for (std::size_t i = 0; i < histogram::bucket_count; ++i)
            out.buckets[i] = buckets_[i].get();
    }

private:
    std::array<tally, histogram::bucket_count> buckets_;
};

}  // namespace cenote::core

// Asymmetric memory barrier: announce() is cheap for frequent callers, full_barrier() pays for
// both.
//
// A store and a later load may be reordered unless a full barrier separates them. Where the kernel
// supports membarrier(2), full_barrier() executes a barrier on all threads of the process, and
// announce() needs none. Elsewhere announce() has its own.
#pragma once

#include <atomic>

namespace cenote::c {

/// Whether membarrier(2) works. Set by prepare_barrier(), before any other use, and constant since.
inline constinit std::atomic<bool> has_membarrier{false};

/// Registers the process with the kernel. Must be called before the functions below.
void prepare_barrier() noexcept;

/// Stores `what`, ordered before all later loads of this thread as seen by a thread that calls
/// full_barrier() between its own store and load.
template <class T>
void announce(std::atomic<T>& where, T what) noexcept {
    if (has_membarrier.load(std::memory_order_relaxed)) [[likely]] {
        where.store(what, std::memory_order_release);
        std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler
    } else {
        where.exchange(what);
    }
}

/// Afterwards every other thread either sees what this thread stored before, or its announce() is
/// visible to this thread.
void full_barrier() noexcept;

}  // namespace cenote::c

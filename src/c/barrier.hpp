// "Say that you are here, then look whether you may": with that order kept at the expense of
// whoever comes seldom.
//
// A store and the load after it change places on their way to memory, unless something expensive is
// in between. Those who come often are spared that where the kernel can do it for them:
// membarrier(2) puts it into all threads of the process at once. Where it cannot, everybody pays.
#pragma once

#include <atomic>

namespace cenote::c {

/// Whether others do it for us. Set before anybody comes, by prepare_barrier(), and never changed.
inline constinit std::atomic<bool> barrier_is_elsewhere{false};

/// Asks the kernel.
void prepare_barrier() noexcept;

/// What loads come after is seen by whoever has made a full_barrier() since.
template <class T>
void say(std::atomic<T>& where, T what) noexcept {
    if (barrier_is_elsewhere.load(std::memory_order_relaxed)) [[likely]] {
        where.store(what, std::memory_order_release);
        std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler
    } else {
        where.exchange(what);
    }
}

/// Each thread either sees what was stored before this, or is seen to have said something.
void full_barrier() noexcept;

}  // namespace cenote::c

// The kernel's part of it.
#include "c/barrier.hpp"

#include <exception>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cenote::c {

namespace {

bool ask_kernel(int what) noexcept { return syscall(SYS_membarrier, what, 0, 0) == 0; }

bool enlist() noexcept { return ask_kernel(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

}  // namespace

void prepare_barrier() noexcept {
    [[maybe_unused]] static const bool once = [] {
        bool can = enlist() && ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        barrier_is_elsewhere.store(can, std::memory_order_relaxed);
        return true;
    }();
}

void full_barrier() noexcept {
    if (!barrier_is_elsewhere.load(std::memory_order_relaxed)) return;  // what they do is enough
    if (ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
    // It did before; a child of this process may have to say so again.
    if (!enlist() || !ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) std::terminate();
}

}  // namespace cenote::c

// full_barrier() by membarrier(2).
#include "c/barrier.hpp"

#include <exception>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cenote::c {

namespace {

bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

bool register_process() noexcept { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

}  // namespace

void prepare_barrier() noexcept {
    [[maybe_unused]] static const bool once = [] {
        bool works = register_process() && membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
        has_membarrier.store(works, std::memory_order_relaxed);
        return true;
    }();
}

void full_barrier() noexcept {
    if (!has_membarrier.load(std::memory_order_relaxed)) return;  // announce() has its own
    if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) return;
    // It worked before; the child of a fork may have to register again.
    if (!register_process() || !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) std::terminate();
}

}  // namespace cenote::c

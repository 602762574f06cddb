// The number of the calling thread and of its processor, for about the price of a load.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cenote::detail {

/// The offset from the thread pointer to the thread's rseq area, in which the kernel keeps the
/// processor's number up to date. glibc 2.35 and later register that area. Zero: there is none.
extern const std::ptrdiff_t rseq_offset;

/// 0: no number was given yet.
extern constinit thread_local std::uint64_t this_threads_number;
std::uint64_t number_this_thread() noexcept;

/// A number that no other thread has or ever had; never zero.
inline std::uint64_t this_thread() noexcept {
    std::uint64_t number = this_threads_number;
    return number != 0 ? number : number_this_thread();
}

/// The processor that the thread ran on a moment ago. It only chooses a cell of the shelf, so a
/// wrong number costs nothing but speed.
inline std::size_t processor() noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
    if (rseq_offset != 0) [[likely]] {
        auto* area = static_cast<const char*>(__builtin_thread_pointer()) + rseq_offset;
        // The first field of the area (cpu_id_start) is always a valid number.
        return *reinterpret_cast<const volatile std::uint32_t*>(area);
    }
#endif
    return this_threads_number;  // spreads the threads over the cells
}

}  // namespace cenote::detail

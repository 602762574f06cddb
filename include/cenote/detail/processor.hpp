// Which processor the calling thread runs on, for about the price of a load.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cenote::detail {

/// The kernel keeps the processor's number up to date in each thread's rseq area, which glibc 2.35
/// and later register; `rseq_offset` says where it lies from the thread pointer. Zero: there is
/// none.
extern const std::ptrdiff_t rseq_offset;

/// Without one, threads are spread over the cells by a number of their own; 0: none given yet.
extern constinit thread_local std::size_t this_threads_number;
std::size_t number_this_thread() noexcept;

/// A number that was right a moment ago. It only chooses a cell, so being wrong costs speed alone.
inline std::size_t processor() noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
    if (rseq_offset != 0) [[likely]] {
        auto* area = static_cast<const char*>(__builtin_thread_pointer()) + rseq_offset;
        // The first field of the area (cpu_id_start) is always a valid number.
        return *reinterpret_cast<const volatile std::uint32_t*>(area);
    }
#endif
    return this_threads_number != 0 ? this_threads_number : number_this_thread();
}

}  // namespace cenote::detail

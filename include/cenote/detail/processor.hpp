// Which thread this is and which processor it runs on, for about the price of a load.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cenote::detail {

/// The kernel keeps the processor's number up to date in each thread's rseq area, which glibc 2.35
/// and later register; `rseq_offset` says where it lies from the thread pointer. Zero: there is
/// none.
extern const std::ptrdiff_t rseq_offset;

/// 0: none given yet.
extern constinit thread_local std::uint64_t this_threads_number;
std::uint64_t number_this_thread() noexcept;

/// A number that no other thread has or ever had; not zero.
inline std::uint64_t this_thread() noexcept {
    std::uint64_t number = this_threads_number;
    return number != 0 ? number : number_this_thread();
}

/// A number that was right a moment ago. It only chooses a cell, so being wrong costs speed alone.
inline std::size_t processor() noexcept {
#if defined(__x86_64__) || defined(__aarch64__)
    if (rseq_offset != 0) [[likely]] {
        auto* area = static_cast<const char*>(__builtin_thread_pointer()) + rseq_offset;
        // The first field of the area (cpu_id_start) is always a valid number.
        return *reinterpret_cast<const volatile std::uint32_t*>(area);
    }
#endif
    return this_threads_number;  // without one, threads are spread over the cells by that
}

}  // namespace cenote::detail

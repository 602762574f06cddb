// Numbers for threads, and where glibc keeps the processor's number.
#include "cenote/detail/processor.hpp"

#include <atomic>

// glibc's symbols under our names. Older versions and other C libraries do not have them.
extern "C" {
extern const std::ptrdiff_t glibc_rseq_offset __asm__("__rseq_offset") __attribute__((weak));
extern const unsigned int glibc_rseq_size __asm__("__rseq_size") __attribute__((weak));
}

namespace cenote::detail {

namespace {

std::ptrdiff_t find_rseq() {
    if (&glibc_rseq_offset == nullptr || &glibc_rseq_size == nullptr || glibc_rseq_size == 0)
        return 0;
    return glibc_rseq_offset;
}

}  // namespace

const std::ptrdiff_t rseq_offset = find_rseq();

constinit thread_local std::uint64_t this_threads_number = 0;

std::uint64_t number_this_thread() noexcept {
    static std::atomic<std::uint64_t> last{0};
    return this_threads_number = last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace cenote::detail

// Which processor the calling thread runs on.
#include "cenote/detail/processor.hpp"

#include <atomic>

// glibc's own symbols; absent in older ones and in other C libraries.
extern "C" {
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));
}

namespace cenote::detail {

namespace {

std::ptrdiff_t find_rseq() {
    if (&__rseq_offset == nullptr || &__rseq_size == nullptr || __rseq_size == 0) return 0;
    return __rseq_offset;
}

}  // namespace

const std::ptrdiff_t rseq_offset = find_rseq();

constinit thread_local std::size_t this_threads_number = 0;

std::size_t number_this_thread() noexcept {
    static std::atomic<std::size_t> last{0};
    return this_threads_number = last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace cenote::detail

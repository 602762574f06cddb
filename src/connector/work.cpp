// The work threads of coroutines.
#include "connector/work.hpp"

#include <atomic>

#include "cenote/detail/process.hpp"

namespace cenote::connector_detail {

namespace {

struct crew {
    static constexpr std::size_t size = 4;

    boost::asio::thread_pool threads{size};
    detail::process_number process = detail::this_process;
};

}  // namespace

/// Never destroyed: somebody may be waiting for a server at the very end of the program, and after
/// a fork the threads are the parent's. No lock: a fork may come at any moment.
boost::asio::thread_pool& work_threads() {
    static std::atomic<crew*> present{nullptr};
    crew* seen = present.load(std::memory_order_acquire);
    while (seen == nullptr || seen->process != detail::this_process) {
        auto mine = std::make_unique<crew>();
        if (present.compare_exchange_strong(seen, mine.get(), std::memory_order_acq_rel))
            return mine.release()->threads;
    }
    return seen->threads;
}

}  // namespace cenote::connector_detail

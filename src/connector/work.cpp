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

namespace work_detail {

namespace {

/// Hears when an event loop ends.
class loop_end : public asio::execution_context::service {
public:
    using key_type = loop_end;
    static inline asio::execution_context::id id;

    explicit loop_end(asio::execution_context& loop) : service(loop) {}

    std::shared_ptr<visitors> all = std::make_shared<visitors>();

private:
    void shutdown() noexcept override { all->abandon_all(); }
};

}  // namespace

void visitors::add(const std::shared_ptr<awaiting>& who) {
    std::lock_guard lock(mutex_);
    present_.insert(who);
}

void visitors::abandon_all() noexcept {
    std::set<std::shared_ptr<awaiting>> left;
    {
        std::lock_guard lock(mutex_);
        left.swap(present_);
    }
    for (const auto& each : left) each->abandon();
}

std::shared_ptr<visitors> visitors::of(asio::execution_context& loop) {
    return asio::use_service<loop_end>(loop).all;
}

}  // namespace work_detail

}  // namespace cenote::connector_detail

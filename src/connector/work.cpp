// The work threads of coroutines.
#include "connector/work.hpp"

#include <atomic>

#include "cenote/detail/process.hpp"

namespace cenote::connector_detail {

namespace {

struct crew {
    explicit crew(std::size_t size) : threads(size) {}

    boost::asio::thread_pool threads;
    std::atomic<int> waiting{0};  // of those that nobody waits for
    detail::process_number process = detail::this_process;
};

/// Never destroyed: somebody may be waiting for a server at the very end of the program, and after
/// a fork the threads are the parent's. No lock: a fork may come at any moment.
crew& crew_at(std::atomic<crew*>& place, std::size_t size) {
    crew* seen = place.load(std::memory_order_acquire);
    while (seen == nullptr || seen->process != detail::this_process) {
        auto mine = std::make_unique<crew>(size);
        if (place.compare_exchange_strong(seen, mine.get(), std::memory_order_acq_rel))
            return *mine.release();
    }
    return *seen;
}

}  // namespace

boost::asio::thread_pool& work_threads() {
    static std::atomic<crew*> present{nullptr};
    return crew_at(present, 4).threads;
}

bool run_aside(std::function<void()> what) noexcept {
    static std::atomic<crew*> present{nullptr};
    constexpr int most = 64;
    try {
        crew& they = crew_at(present, 2);
        // Counted for as long as somebody has it, done or dropped.
        auto leave = [&they](void*) { they.waiting.fetch_sub(1, std::memory_order_relaxed); };
        int before = they.waiting.fetch_add(1, std::memory_order_relaxed);
        std::shared_ptr<void> counted(nullptr, leave);
        if (before >= most) return false;
        boost::asio::post(they.threads, [counted, what = std::move(what)] { what(); });
        return true;
    } catch (...) {
        return false;  // no memory or no thread for it
    }
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

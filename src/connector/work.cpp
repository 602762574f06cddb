// The work threads, and the waiters of each event loop.
#include "connector/work.hpp"

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <thread>

#include "cenote/detail/process.hpp"
#include "cenote/server_error.hpp"

namespace cenote::connector_detail {

namespace {

struct thread_group {
    explicit thread_group(std::size_t size) : threads(size) {}

    boost::asio::thread_pool threads;
    std::atomic<int> queued{0};  // functions of run_detached, running ones included
    detail::process_number process = detail::this_process;
};

/// Never destroyed: a call may still be running when the program ends, and after a fork the threads
/// are the parent's. Without a lock, since a fork may come at any moment.
thread_group& group_at(std::atomic<thread_group*>& place, std::size_t size) {
    thread_group* seen = place.load(std::memory_order_acquire);
    while (seen == nullptr || seen->process != detail::this_process) {
        auto mine = std::make_unique<thread_group>(size);
        if (place.compare_exchange_strong(seen, mine.get(), std::memory_order_acq_rel))
            return *mine.release();
    }
    return *seen;
}

}  // namespace

boost::asio::thread_pool& work_threads() {
    static std::atomic<thread_group*> present{nullptr};
    return group_at(present, 4).threads;
}

bool run_detached(std::function<void()> what) noexcept {
    static std::atomic<thread_group*> present{nullptr};
    constexpr int max_queued = 64;
    try {
        thread_group& group = group_at(present, 2);
        // Counts the function until it has run or was dropped.
        auto uncount = [&group](void*) { group.queued.fetch_sub(1, std::memory_order_relaxed); };
        int before = group.queued.fetch_add(1, std::memory_order_relaxed);
        std::shared_ptr<void> counted(nullptr, uncount);
        if (before >= max_queued) return false;
        boost::asio::post(group.threads, [counted, what = std::move(what)] { what(); });
        return true;
    } catch (...) {
        return false;  // no memory or no thread for it
    }
}

// Functions of the user.

void run_on_own_loop(boost::asio::awaitable<void> what,
                     std::chrono::steady_clock::time_point deadline, const char* name) {
    namespace asio = boost::asio;
    asio::io_context loop(1);
    asio::cancellation_signal stop;
    std::exception_ptr error;
    bool over = false;
    auto note_end = [&](std::exception_ptr thrown) {
        error = std::move(thrown);
        over = true;
    };
    asio::co_spawn(loop, std::move(what), asio::bind_cancellation_slot(stop.slot(), note_end));
    loop.run_until(deadline);
    const bool late = !over;
    if (late) {
        stop.emit(asio::cancellation_type::terminal);
        loop.run();
    }
    if (error == nullptr) return;
    if (late) throw exchange_timeout(std::string("cenote: timed out waiting for ") + name);
    std::rethrow_exception(error);
}

void user_threads::post(const std::shared_ptr<work_detail::loop_waiter>& call) {
    constexpr std::size_t max_running = 4;
    std::lock_guard lock(mutex_);
    if (process_ != detail::this_process) {  // the threads are the parent's
        process_ = detail::this_process;
        running_ = 0;
        queue_.clear();
    }
    std::erase_if(queue_, [](const auto& each) { return each.expired(); });
    queue_.push_back(call);
    if (running_ == max_running) return;
    try {
        std::thread([me = shared_from_this()] { me->work(); }).detach();
        ++running_;
    } catch (...) {
        queue_.pop_back();
        throw;
    }
}

void user_threads::work() {
    while (std::shared_ptr<work_detail::loop_waiter> one = next()) one->run();
}

/// Null: the thread ends.
std::shared_ptr<work_detail::loop_waiter> user_threads::next() {
    std::lock_guard lock(mutex_);
    while (!queue_.empty()) {
        std::shared_ptr<work_detail::loop_waiter> first = queue_.front().lock();
        queue_.pop_front();
        if (first != nullptr) return first;
    }
    --running_;
    return nullptr;
}

namespace work_detail {

namespace {

/// Abandons the waiters of an event loop when the loop is destroyed.
class loop_end : public asio::execution_context::service {
public:
    using key_type = loop_end;
    static inline asio::execution_context::id id;

    explicit loop_end(asio::execution_context& loop) : service(loop) {}

    std::shared_ptr<loop_waiters> waiters = std::make_shared<loop_waiters>();

private:
    void shutdown() noexcept override { waiters->abandon_all(); }
};

}  // namespace

void loop_waiters::add(const std::shared_ptr<loop_waiter>& waiter) {
    std::lock_guard lock(mutex_);
    present_.insert(waiter);
}

void loop_waiters::abandon_all() noexcept {
    std::set<std::shared_ptr<loop_waiter>> left;
    {
        std::lock_guard lock(mutex_);
        left.swap(present_);
    }
    for (const auto& each : left) each->abandon();
}

std::shared_ptr<loop_waiters> loop_waiters::of(asio::execution_context& loop) {
    return asio::use_service<loop_end>(loop).waiters;
}

}  // namespace work_detail

}  // namespace cenote::connector_detail

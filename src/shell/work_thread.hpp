// Connector calls that block: on a few threads of the pool, next to its timer thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <string>
#include <thread>

#include "cenote/options.hpp"
#include "core/pacer.hpp"
#include "shell/workplace.hpp"

namespace cenote::shell {

/// The timer thread ticks and starts workers as calls come in. It makes no call itself, so a call
/// that hangs cannot stop the timer. Workers end after a while without work. All threads are
/// started when they are first needed, and named after the pool.
///
/// A worker whose call was abandoned does not count against the limit, so a few calls that hang do
/// not stop the pool. But only about `limit` of them are tolerated at a time.
class work_thread final : public work_blocking {
public:
    work_thread(keeper& home, const options& settings);

    bool schedule(core::instant wake_at) override;
    void wake() noexcept override;
    void abandoned(core::slot_id slot, std::uint64_t call) override;
    bool stopped() const override { return stopping_; }
    bool too_many_hang() const override { return hanging_ > limit_ + core::pacer::most_strays; }
    bool is_stuck(std::size_t own) const override;
    void resized(std::size_t max) override;
    void restart() override;
    /// Waits for all threads, except the calling one and those in an abandoned call.
    void stop(pool_guard& lock) noexcept override CENOTE_UNCHECKED_LOCKING;

private:
    struct worker {
        std::thread thread;
        job running{};
        bool hangs = false;  // its call was abandoned
        bool ended = false;
    };

    void start_up() override;
    void run_timer();
    void work(worker& self);
    bool start_worker();
    void join_ended(pool_guard& lock) CENOTE_UNCHECKED_LOCKING;
    bool needs_worker() const;
    void set_hanging(worker& w, bool hangs);

    const std::string name_;
    const std::size_t opening_max_;
    const std::size_t for_observers_;  // workers

    // Guarded by the keeper's lock.
    std::thread timer_;
    std::list<worker> workers_;
    std::size_t limit_ = 0;  // of workers
    std::size_t idle_ = 0;
    std::size_t woken_ = 0;     // idle workers that are to be woken, or on their way
    std::size_t starting_ = 0;  // started workers that do not work yet
    std::size_t active_ = 0;    // workers that neither hang nor have ended
    std::size_t hanging_ = 0;
    bool stopping_ = false;
    bool refused_ = false;  // the system has refused to start a thread
    core::instant timer_sleeps_until_ = core::long_ago;
    pool_condition timer_wakes_;
    pool_condition worker_wakes_;

    std::atomic<std::size_t> to_wake_{0};  // of woken_: not notified yet
};

}  // namespace cenote::shell

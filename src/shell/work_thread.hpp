// Where connector calls run that block: on a few threads of the pool's own.
#pragma once

#include <atomic>
#include <cstddef>
#include <list>
#include <string>
#include <thread>

#include "cenote/options.hpp"
#include "core/pacer.hpp"
#include "shell/work_blocking.hpp"

namespace cenote::shell {

/// The minder watches the clock for the machine and starts workers as calls come in; it never makes
/// a call itself, so a hanging connector cannot stop the clock. Workers end after a while without
/// work. All are started lazily and named after the pool.
///
/// A worker whose call was abandoned does not count against the limit, so that a few hanging calls
/// do not silence the pool; but not many more than `limit` of those are tolerated at a time.
class work_thread final : public work_blocking {
public:
    work_thread(keeper& home, const options& settings);

    bool look(core::instant wake_at) override;
    void summon() noexcept override;
    void abandoned(core::slot_id slot, std::uint64_t call) override;
    bool stopped() const override { return stopping_; }
    bool overwhelmed() const override { return stuck_ > limit_ + core::pacer::most_strays; }
    bool helpless(std::size_t own) const override;
    void resized(std::size_t max) override;
    void start_anew() override;
    /// Waits for all threads, except the calling one and those in an abandoned call.
    void stop(holding& lock) noexcept override CENOTE_UNCHECKED_LOCKING;

private:
    struct worker {
        std::thread thread;
        job running{};
        bool stuck = false;
        bool ended = false;
    };

    void start_up() override;
    void mind();
    void work(worker& self);
    bool hire();
    void bury_ended(holding& lock) CENOTE_UNCHECKED_LOCKING;
    bool must_hire() const;
    void give_up_on(worker& w);

    const std::string name_;
    const std::size_t opening_max_;
    const std::size_t tellers_;

    // Guarded by the keeper's lock.
    std::thread minder_;
    std::list<worker> workers_;
    std::size_t limit_ = 0;       // of workers
    std::size_t idle_ = 0;
    std::size_t summoned_ = 0;  // of the idle: to be woken, or woken and not back yet
    std::size_t starting_ = 0;  // hired, and not at work yet
    std::size_t active_ = 0;    // neither stuck nor ended
    std::size_t stuck_ = 0;
    bool stopping_ = false;
    bool refused_ = false;  // the system has refused a thread
    core::instant minder_sleeps_until_ = core::long_ago;
    condition minder_wakes_;
    condition worker_wakes_;

    std::atomic<std::size_t> to_wake_{0};  // of those summoned
};

}  // namespace cenote::shell

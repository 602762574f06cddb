// Where connector calls run that block: on a few threads of the pool's own.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <thread>

#include "core/instant.hpp"
#include "shell/job.hpp"

namespace cenote::shell {

class keeper;

/// The minder watches the clock for the machine and starts workers as calls come in; it never makes
/// a call itself, so a hanging connector cannot stop the clock. Workers end after a while without
/// work. All are started lazily and named after the pool.
///
/// A worker whose call was abandoned does not count against the limit, so that a few hanging calls
/// do not silence the pool; but not more than `limit` of those are tolerated at a time.
class work_thread {
public:
    work_thread(keeper& home, const std::string& name, std::size_t limit);

    /// Starts the minder if it is not there. Throws what starting a thread throws. Not under the
    /// lock.
    void start();

    // Under the keeper's lock. Never throw or allocate.

    /// Calls are waiting, or the timer must be set to an earlier time.
    void look(core::instant wake_at);
    /// The worker that runs this call will not be waited for.
    void abandoned(core::slot_id slot, std::uint64_t call);
    bool stopped() const { return stopping_; }
    /// More calls hang than are tolerated.
    bool overwhelmed() const { return stuck_ > limit_; }
    /// Something is to be done, and nobody will: but for `own` workers, which are busy otherwise,
    /// there is none and none can be had.
    bool helpless(std::size_t own) const;

    /// Ends all threads and waits for them, except the calling one and those in an abandoned call.
    /// From the moment it is called with the keeper's lock no call begins on them.
    void stop(std::unique_lock<std::mutex>& lock) noexcept;

private:
    struct worker {
        std::thread thread;
        job running{};
        bool idle = false;
        bool stuck = false;
        bool ended = false;
    };

    void mind();
    void work(worker& self);
    bool hire();
    void bury_ended(std::unique_lock<std::mutex>& lock);
    bool must_hire() const;
    void give_up_on(worker& w);

    keeper& home_;
    std::string name_;
    std::size_t limit_;

    // Guarded by the keeper's lock.
    std::thread minder_;
    std::atomic<bool> minding_{false};
    std::list<worker> workers_;
    std::size_t idle_ = 0;
    std::size_t starting_ = 0;  // hired, and not at work yet
    std::size_t active_ = 0;    // neither stuck nor ended
    std::size_t stuck_ = 0;
    bool stopping_ = false;
    bool refused_ = false;  // the system has refused a thread
    core::instant minder_sleeps_until_ = core::long_ago;
    std::condition_variable minder_wakes_;
    std::condition_variable worker_wakes_;
};

}  // namespace cenote::shell

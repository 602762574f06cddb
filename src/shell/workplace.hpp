// Where a pool's connector calls run, and its timer: threads, the calling thread, or an executor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "core/instant.hpp"
#include "shell/job.hpp"
#include "shell/lock.hpp"

namespace cenote::shell {

class keeper;

class workplace {
public:
    workplace() = default;
    workplace(const workplace&) = delete;
    workplace& operator=(const workplace&) = delete;
    virtual ~workplace() = default;

    // Not under the keeper's lock.

    /// Starts what is needed for work; does nothing if it was started. Throws what starting a
    /// thread throws.
    void start() {
        if (!started()) start_up();
    }
    /// Makes a connector's call, or starts it. finish() follows.
    virtual void call(const job& j) noexcept = 0;
    /// The number of connector calls that the calling thread is in.
    virtual std::size_t calls_here() const = 0;
    /// Whether it cannot work while the calling thread sleeps.
    virtual bool needs_this_thread() const { return false; }
    /// Follows schedule(), if that returned true.
    virtual void wake() noexcept {}
    /// Follows wake(), after waiters were notified. In a pool on a manual clock it does the jobs.
    virtual void run_inline() noexcept {}
    /// In a pool on a manual clock: the calling thread has to wait, at most until `until`. True: it
    /// did something that may have ended the wait.
    virtual bool make_progress(core::instant /*until*/) noexcept { return false; }

    // Under the keeper's lock. These neither throw nor allocate.

    /// Jobs may wait, and the timer must be set to `wake_at`. True: wake() must follow.
    virtual bool schedule(core::instant wake_at) = 0;
    /// The machine has given up this call.
    virtual void abandoned(core::slot_id slot, std::uint64_t call) = 0;
    virtual bool stopped() const = 0;
    /// If it has stopped: the reason why it opens nothing; null: the pool has ended.
    virtual std::exception_ptr why_stopped() const { return nullptr; }
    /// Whether more abandoned calls run than are tolerated.
    virtual bool too_many_hang() const = 0;
    /// Whether jobs wait that no thread will do, apart from `own` calls that wait for them.
    virtual bool is_stuck(std::size_t own) const = 0;
    /// The pool's maximum is `max` from now on.
    virtual void resized(std::size_t /*max*/) {}
    /// In the child of a fork, where all threads and their calls are gone.
    virtual void restart() = 0;
    /// At the end of the pool: no further call begins here.
    virtual void stop(pool_guard& lock) noexcept = 0;

protected:
    bool started() const { return started_.load(std::memory_order_acquire); }
    void set_started(bool started) { started_.store(started, std::memory_order_release); }

private:
    virtual void start_up() = 0;

    std::atomic<bool> started_{false};
};

/// A workplace for connectors that block: makes each call on the thread that does the job.
class work_blocking : public workplace {
public:
    explicit work_blocking(keeper& home) : home_(home) {}

    void call(const job& j) noexcept final;
    std::size_t calls_here() const final;

protected:
    keeper& home_;
};

}  // namespace cenote::shell

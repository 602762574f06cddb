// Where a pool's connector is called, and who minds its clock.
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

    /// Makes ready for work. Throws what starting a thread throws. Can be called again.
    void start() {
        if (!started()) start_up();
    }
    /// Makes a connector's call, or sees to it that it is made. keeper::finish() follows.
    virtual void call(const job& j) noexcept = 0;
    /// How many connector calls the calling thread is in.
    virtual std::size_t calls_here() const = 0;
    /// Whether it cannot work while the calling thread sleeps.
    virtual bool needs_this_thread() const { return false; }
    /// Follows look(), when that asked for it.
    virtual void summon() noexcept {}
    /// Follows summon(), after waiters were told. In a pool on a manual clock it does the jobs.
    virtual void follow_up() noexcept {}
    /// In a pool on a manual clock: the calling thread has to wait, at most until `until`. True: it
    /// did something that may have ended the wait.
    virtual bool do_something(core::instant /*until*/) noexcept { return false; }

    // Under the keeper's lock. Never throw or allocate.

    /// Jobs are waiting, or the clock must be minded from earlier on. True: summon() must follow.
    virtual bool look(core::instant wake_at) = 0;
    /// Nobody waits any more for this call.
    virtual void abandoned(core::slot_id slot, std::uint64_t call) = 0;
    virtual bool stopped() const = 0;
    /// What to tell those for whom nothing will be opened any more; null: nobody is left.
    virtual std::exception_ptr why_stopped() const { return nullptr; }
    /// More calls hang than are tolerated.
    virtual bool overwhelmed() const = 0;
    /// Something is to be done, and nobody will, except `own` calls that are busy otherwise.
    virtual bool helpless(std::size_t own) const = 0;
    /// The pool's maximum is `max` from now on.
    virtual void resized(std::size_t /*max*/) {}
    /// In the child of a fork: all threads are gone, and what they did.
    virtual void start_anew() = 0;
    /// The pool is gone: no call begins here any more.
    virtual void stop(holding& lock) noexcept = 0;

protected:
    bool started() const { return started_.load(std::memory_order_acquire); }
    void has_not_started() { started_.store(false, std::memory_order_release); }
    void has_started() { started_.store(true, std::memory_order_release); }

private:
    virtual void start_up() = 0;

    std::atomic<bool> started_{false};
};

}  // namespace cenote::shell

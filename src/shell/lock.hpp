// The lock of a keeper, and what Clang is told about it: which data it guards, which functions need
// it. A build with Clang refuses code that breaks these rules (-Wthread-safety).
//
// A futex and no std::mutex: a contended cycle takes the lock twice, and the C library's lock costs
// 57 instructions each time where this one costs 12.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/instant.hpp"
#include "shell/futex.hpp"

#if defined(__clang__)
#define CENOTE_LOCK_RULE(rule) __attribute__((rule))
#else
#define CENOTE_LOCK_RULE(rule)
#endif

/// On data: only under this lock.
#define CENOTE_GUARDED_BY(lock) CENOTE_LOCK_RULE(guarded_by(lock))
/// On functions: the caller holds the lock; or must not hold it.
#define CENOTE_REQUIRES(lock) CENOTE_LOCK_RULE(requires_capability(lock))
#define CENOTE_EXCLUDES(lock) CENOTE_LOCK_RULE(locks_excluded(lock))
/// On functions that break the rules for a reason that stands beside it.
#define CENOTE_UNCHECKED_LOCKING CENOTE_LOCK_RULE(no_thread_safety_analysis)

namespace cenote::shell {

class CENOTE_LOCK_RULE(capability("mutex")) pool_lock {
public:
    void lock() CENOTE_LOCK_RULE(acquire_capability()) {
        std::uint32_t seen = open;
        if (!state_.compare_exchange_strong(seen, taken, std::memory_order_acquire,
                                            std::memory_order_relaxed)) [[unlikely]]
            wait_for_it(seen);
    }
    void unlock() CENOTE_LOCK_RULE(release_capability()) {
        if (state_.exchange(open, std::memory_order_release) == wanted) [[unlikely]]
            wake_from(&state_, 1);
    }

    /// For code that runs under the lock where Clang cannot see that: it does nothing.
    void is_held() const CENOTE_LOCK_RULE(assert_capability(this)) {}

private:
    /// `wanted`: taken, and another thread may sleep until it is open.
    enum : std::uint32_t { open, taken, wanted };

    void wait_for_it(std::uint32_t seen) noexcept;

    std::atomic<std::uint32_t> state_{open};
};

/// Holds a lock from its making to its end, but for where it is unlocked in between.
class CENOTE_LOCK_RULE(scoped_lockable) holding {
public:
    explicit holding(pool_lock& what) CENOTE_LOCK_RULE(acquire_capability(what)) : lock_(what) {
        lock_.lock();
    }
    ~holding() CENOTE_LOCK_RULE(release_capability()) {
        if (held_) lock_.unlock();
    }
    holding(const holding&) = delete;
    holding& operator=(const holding&) = delete;

    void lock() CENOTE_LOCK_RULE(acquire_capability()) {
        lock_.lock();
        held_ = true;
    }
    void unlock() CENOTE_LOCK_RULE(release_capability()) {
        held_ = false;
        lock_.unlock();
    }

private:
    pool_lock& lock_;
    bool held_ = true;
};

/// Threads that sleep until another one tells them to look again. They look under a lock; what they
/// look at changes under the same one. Telling needs no lock.
class condition {
public:
    void wait(holding& h) { wait_until(h, core::never); }
    template <class Until>
    void wait(holding& h, Until until) {
        while (!until()) wait(h);
    }
    /// False: the limit has passed. May return before that without having been told.
    bool wait_until(holding& h, core::instant limit) CENOTE_UNCHECKED_LOCKING;
    bool wait_for(holding& h, core::duration at_most);
    void tell_one() noexcept { tell(1); }
    void tell_all() noexcept;

private:
    void tell(int count) noexcept;

    std::atomic<std::uint32_t> told_{0};
    std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace cenote::shell

// The lock of a keeper, and what Clang is told about it: which data it guards, which functions need
// it. A build with Clang refuses code that breaks these rules (-Wthread-safety).
#pragma once

#include <condition_variable>
#include <mutex>

#include "core/instant.hpp"

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
    void lock() CENOTE_LOCK_RULE(acquire_capability()) { mutex_.lock(); }
    void unlock() CENOTE_LOCK_RULE(release_capability()) { mutex_.unlock(); }

    /// For code that runs under the lock where Clang cannot see that: it does nothing.
    void is_held() const CENOTE_LOCK_RULE(assert_capability(this)) {}

private:
    friend class holding;
    std::mutex mutex_;
};

/// Holds a lock from its making to its end, but for where it is unlocked in between.
class CENOTE_LOCK_RULE(scoped_lockable) holding {
public:
    explicit holding(pool_lock& what) CENOTE_LOCK_RULE(acquire_capability(what))
        : inner_(what.mutex_) {}
    ~holding() CENOTE_LOCK_RULE(release_capability()) {}
    holding(const holding&) = delete;
    holding& operator=(const holding&) = delete;

    void lock() CENOTE_LOCK_RULE(acquire_capability()) { inner_.lock(); }
    void unlock() CENOTE_LOCK_RULE(release_capability()) { inner_.unlock(); }

private:
    friend class condition;
    std::unique_lock<std::mutex> inner_;
};

/// Threads that sleep until another one tells them to look again.
class condition {
public:
    void wait(holding& h) { inner_.wait(h.inner_); }
    template <class Until>
    void wait(holding& h, Until until) {
        while (!until()) wait(h);
    }
    /// False: it was not told in time.
    bool wait_until(holding& h, core::instant limit) {
        return inner_.wait_until(h.inner_, limit) == std::cv_status::no_timeout;
    }
    bool wait_for(holding& h, core::duration at_most) {
        return inner_.wait_for(h.inner_, at_most) == std::cv_status::no_timeout;
    }
    void tell_one() noexcept { inner_.notify_one(); }
    void tell_all() noexcept { inner_.notify_all(); }

private:
    std::condition_variable inner_;
};

}  // namespace cenote::shell

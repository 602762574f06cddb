// The keeper's lock, and Clang's annotations for it: which data it guards, which functions need it.
// A build with Clang refuses code that breaks these rules (-Wthread-safety).
//
// The lock is a futex, not a std::mutex: a contended cycle takes it twice, and the C library's
// mutex costs 57 instructions each time where this lock costs 12.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/instant.hpp"

#if defined(__clang__)
#define CENOTE_LOCK_RULE(rule) __attribute__((rule))
#else
#define CENOTE_LOCK_RULE(rule)
#endif

/// On data: accessed only under this lock.
#define CENOTE_GUARDED_BY(lock) CENOTE_LOCK_RULE(guarded_by(lock))
/// On functions: the caller has the lock; or must not have it.
#define CENOTE_REQUIRES(lock) CENOTE_LOCK_RULE(requires_capability(lock))
#define CENOTE_EXCLUDES(lock) CENOTE_LOCK_RULE(locks_excluded(lock))
/// On functions that Clang cannot check, for a reason that a comment gives.
#define CENOTE_UNCHECKED_LOCKING CENOTE_LOCK_RULE(no_thread_safety_analysis)

namespace cenote::shell {

/// A futex: sleeps while *word == value, at most until `limit`. May return earlier.
void sleep_on(const std::atomic<std::uint32_t>& word, std::uint32_t value,
              core::instant limit) noexcept;
/// Wakes up to `count` threads that sleep on a word. Uses its address only: the word may be gone.
void wake_from(const std::atomic<std::uint32_t>* word, int count) noexcept;

class CENOTE_LOCK_RULE(capability("mutex")) pool_lock {
public:
    void lock() CENOTE_LOCK_RULE(acquire_capability()) {
        std::uint32_t seen = unlocked;
        if (!state_.compare_exchange_strong(seen, locked, std::memory_order_acquire,
                                            std::memory_order_relaxed)) [[unlikely]]
            lock_contended(seen);
    }
    void unlock() CENOTE_LOCK_RULE(release_capability()) {
        if (state_.exchange(unlocked, std::memory_order_release) == contended) [[unlikely]]
            wake_from(&state_, 1);
    }

    /// Does nothing. For code that runs under the lock where Clang cannot see that.
    void is_held() const CENOTE_LOCK_RULE(assert_capability(this)) {}

private:
    /// `contended`: locked, and another thread may sleep until it is unlocked.
    enum : std::uint32_t { unlocked, locked, contended };

    void lock_contended(std::uint32_t seen) noexcept;

    std::atomic<std::uint32_t> state_{unlocked};
};

/// Locks a pool_lock for a scope, which may unlock it in between.
class CENOTE_LOCK_RULE(scoped_lockable) pool_guard {
public:
    explicit pool_guard(pool_lock& what) CENOTE_LOCK_RULE(acquire_capability(what)) : lock_(what) {
        lock_.lock();
    }
    ~pool_guard() CENOTE_LOCK_RULE(release_capability()) {
        if (locked_) lock_.unlock();
    }
    pool_guard(const pool_guard&) = delete;
    pool_guard& operator=(const pool_guard&) = delete;

    void lock() CENOTE_LOCK_RULE(acquire_capability()) {
        lock_.lock();
        locked_ = true;
    }
    void unlock() CENOTE_LOCK_RULE(release_capability()) {
        locked_ = false;
        lock_.unlock();
    }

private:
    pool_lock& lock_;
    bool locked_ = true;
};

/// A condition variable for pool_lock. The state that threads wait for changes under the lock;
/// notifying needs no lock.
class pool_condition {
public:
    void wait(pool_guard& g) { wait_until(g, core::never); }
    template <class Until>
    void wait(pool_guard& g, Until until) {
        while (!until()) wait(g);
    }
    /// False: the limit has passed. May return earlier without a notification.
    bool wait_until(pool_guard& g, core::instant limit) CENOTE_UNCHECKED_LOCKING;
    bool wait_for(pool_guard& g, core::duration at_most);
    void notify_one() noexcept { notify(1); }
    void notify_all() noexcept;

private:
    void notify(int count) noexcept;

    std::atomic<std::uint32_t> notified_{0};
    std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace cenote::shell

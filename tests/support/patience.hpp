// How tests wait: for a condition, with a generous limit; for the absence of an event, briefly.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <ctime>
#include <memory>
#include <mutex>
#include <thread>

namespace support {

using namespace std::chrono_literals;

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define CENOTE_TEST_SLOWLY 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define CENOTE_TEST_SLOWLY 1
#endif
#ifdef CENOTE_TEST_SLOWLY
inline constexpr bool slowly = true;
#else
inline constexpr bool slowly = false;
#endif

/// `n` rounds, or a tenth under a sanitizer.
constexpr int rounds(int n) { return slowly ? std::max(1, n / 10) : n; }

/// How long a test waits for a condition. Only a broken pool uses it up; virtual machines stopped
/// for up to 44 seconds.
inline constexpr std::chrono::nanoseconds plenty = 3min;

/// The machine's monotonic time, also while a test has stopped the steady clock (clock.hpp).
inline std::chrono::nanoseconds machine_time() {
    timespec at{};
    ::clock_gettime(CLOCK_MONOTONIC, &at);
    return std::chrono::seconds(at.tv_sec) + std::chrono::nanoseconds(at.tv_nsec);
}

/// Whether `holds` becomes true.
template <class Condition>
bool eventually(Condition&& holds, std::chrono::nanoseconds limit = plenty) {
    auto end = machine_time() + limit;
    while (!holds()) {
        if (machine_time() > end) return false;
        std::this_thread::sleep_for(500us);
    }
    return true;
}

/// Whether `holds` stays true for `time`.
template <class Condition>
bool for_a_while(Condition&& holds, std::chrono::nanoseconds time = 30ms) {
    auto end = machine_time() + time;
    do {
        if (!holds()) return false;
        std::this_thread::sleep_for(2ms);
    } while (machine_time() < end);
    return true;
}

/// Blocks threads until open() is called; closed at first. Copies share their state, because an
/// abandoned connector call may outlive its pool and the test.
class latch {
public:
    void open() const {
        std::lock_guard lock(state_->mutex);
        state_->open = true;
        state_->changed.notify_all();
    }
    void close() const {
        std::lock_guard lock(state_->mutex);
        state_->open = false;
    }
    /// Waits until the latch is open. False: it stayed closed for `plenty`.
    bool wait() const {
        std::unique_lock lock(state_->mutex);
        ++state_->waiting;
        bool opened = state_->changed.wait_for(lock, plenty, [&] { return state_->open; });
        --state_->waiting;
        return opened;
    }
    int waiting() const {
        std::lock_guard lock(state_->mutex);
        return state_->waiting;
    }

private:
    struct state {
        std::mutex mutex;
        std::condition_variable changed;
        int waiting = 0;
        bool open = false;
    };
    std::shared_ptr<state> state_ = std::make_shared<state>();
};

/// Waits until the pool's line has exactly `count` waiters.
template <class Pool>
bool lines_up(const Pool& pool, std::size_t count) {
    return eventually([&] { return pool.stats().waiting == count; });
}

}  // namespace support

// How tests wait: for something that must happen, generously; for nothing to happen, briefly.
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

/// So many rounds, fewer where each is expensive.
constexpr int rounds(int n) { return slowly ? std::max(1, n / 10) : n; }

/// How long a test waits for what must happen. Only a broken pool uses it up. Virtual machines were
/// seen to stop for 44 seconds.
inline constexpr std::chrono::nanoseconds plenty = 3min;

/// The time of the machine, whatever the test has done to the steady clock (clock.hpp).
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

/// Whether `holds` stays true for a little while.
template <class Condition>
bool for_a_while(Condition&& holds, std::chrono::nanoseconds time = 30ms) {
    auto end = machine_time() + time;
    do {
        if (!holds()) return false;
        std::this_thread::sleep_for(2ms);
    } while (machine_time() < end);
    return true;
}

/// Shut until somebody opens it. Copies are the same door: a call that is given up may outlive its
/// pool, and the test, so whatever it waits at must be its own.
class door {
public:
    void open() const {
        std::lock_guard lock(way_->mutex);
        way_->open = true;
        way_->changed.notify_all();
    }
    void shut() const {
        std::lock_guard lock(way_->mutex);
        way_->open = false;
    }
    /// Waits until it is open. False: nobody opened it.
    bool pass_through() const {
        std::unique_lock lock(way_->mutex);
        ++way_->waiting;
        bool opened = way_->changed.wait_for(lock, plenty, [&] { return way_->open; });
        --way_->waiting;
        return opened;
    }
    int waiting() const {
        std::lock_guard lock(way_->mutex);
        return way_->waiting;
    }

private:
    struct way {
        std::mutex mutex;
        std::condition_variable changed;
        int waiting = 0;
        bool open = false;
    };
    std::shared_ptr<way> way_ = std::make_shared<way>();
};

/// Whether the pool's line gets exactly `count` long.
template <class Pool>
bool lines_up(const Pool& pool, std::size_t count) {
    return eventually([&] { return pool.stats().waiting == count; });
}

}  // namespace support

// For tests of programs that use pools: a clock that the test moves, and pools without threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

namespace cenote::shell {
class keeper;
}

namespace cenote {

/// A clock that stands still until it is moved. Pools that are made with it (`options::clock`) have
/// no other time, and no thread of their own.
///
///     auto clock = std::make_shared<cenote::manual_clock>();
///     cenote::pool<session> pool{connect, {.idle_timeout = 5min, .clock = clock}};
///     pool.acquire();                   // opened, used and returned
///     clock->advance(5min);             // retired and closed
///     assert(pool.stats().closed == 1);
///
/// The pool's calls of its connector and its observers run on the thread that makes them
/// necessary: inside of acquire, release, advance. A connector that wants to be slow calls
/// advance() itself. There is no fast lane, so that times are exact.
///
/// On an executor (<cenote/asio.hpp>) the pool's calls run there: after advance(), call the
/// context's poll(). A thread that waits for such a pool sleeps.
///
/// Thread safety: all members may be called from any thread at any time. Time never goes backwards.
class manual_clock {
public:
    using time_point = std::chrono::steady_clock::time_point;

    /// What a thread does that has to wait for one of the pools.
    enum class waiting : std::uint8_t {
        moves_clock,  ///< It moves the clock to the next time at which something is due, until it
                      ///< is answered. For tests with one thread: nothing else could happen there.
        sleeps,       ///< It sleeps until another thread returns a lease or moves the clock. For
                      ///< tests with several threads.
    };

    explicit manual_clock(waiting how = waiting::moves_clock) noexcept;
    manual_clock(const manual_clock&) = delete;
    manual_clock& operator=(const manual_clock&) = delete;

    /// Begins at the time at which the clock was made.
    time_point now() const noexcept {
        return time_point{time_point::duration{now_.load(std::memory_order_acquire)}};
    }

    /// Moves the clock. Everything that is due by then happens before it returns, in order, each at
    /// its own time. Throws std::invalid_argument if `by` is negative.
    void advance(std::chrono::nanoseconds by);

    /// The same, up to a time. Does nothing if that has passed.
    void advance_to(time_point to) noexcept;

    waiting how() const noexcept { return how_; }

private:
    friend class shell::keeper;

    // For pools. Not under their locks.
    void add(shell::keeper& k);
    void remove(shell::keeper& k) noexcept;
    /// Moves on to the next time at which something is due, at most to `limit`. False: nothing is
    /// due, and there is no limit.
    bool advance_to_next(time_point limit) noexcept;

    struct due;
    due first_due() noexcept;
    void move_to(time_point to) noexcept;

    const waiting how_;
    std::atomic<time_point::rep> now_;
    std::mutex mutex_;
    std::vector<shell::keeper*> pools_;
};

}  // namespace cenote

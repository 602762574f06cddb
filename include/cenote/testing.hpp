// For tests of programs that use pools: a clock that the test moves, and pools without threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
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
///     { auto s = pool.acquire(); }      // opened, used and returned
///     clock->advance(5min);             // retired and closed
///     assert(pool.stats().closed == 1);
///
/// The pool calls its connector and its observers on the thread that makes the call necessary, one
/// call after the other: inside of acquire, at the end of a lease, inside of advance(). So do not
/// hold a lock there that the connector or an observer takes. A connector that wants to be slow
/// calls advance() itself; a caller that makes such a call returns when it has ended, although its
/// deadline may have passed before. There is no fast lane, so that times are exact.
///
/// On an executor (<cenote/asio.hpp>) the pool's calls run there: after advance(), call the
/// context's poll().
///
/// Thread safety: all members may be called from any thread at any time. Time never goes backwards.
class manual_clock {
public:
    using time_point = std::chrono::steady_clock::time_point;

    /// What a thread does that has to wait for one of the pools.
    enum class waiting : std::uint8_t {
        moves_clock,  ///< It moves the clock to the next time at which something is due, until it
                      ///< is answered. For tests with one thread: nothing else could happen there.
                      ///< If nothing is due and the wait has no deadline, it sleeps.
        sleeps,       ///< It sleeps until another thread returns a lease or moves the clock. For
                      ///< tests with several threads.
    };

    explicit manual_clock(waiting how = waiting::moves_clock) noexcept;
    manual_clock(const manual_clock&) = delete;
    manual_clock& operator=(const manual_clock&) = delete;

    /// Begins at the time at which the clock was made. Deadlines of acquire_until are times of this
    /// clock.
    time_point now() const noexcept {
        return time_point{time_point::duration{now_.load(std::memory_order_acquire)}};
    }

    /// Moves the clock. Everything that is due by then happens before it returns, in order, each at
    /// its own time; but calls of a connector wait while one of its pool's calls is under way, on
    /// another thread or around this one. Throws std::invalid_argument if `by` is negative.
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
    std::vector<shell::keeper*> pools_;  // under the lock of the list of keepers
};

}  // namespace cenote

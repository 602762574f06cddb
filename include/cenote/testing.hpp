// For tests of programs that use pools: a clock that the test moves.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

namespace cenote::shell {
class keeper;
}

namespace cenote {

/// A clock that stands still until it is moved. A pool with this clock (`options::clock`) reads no
/// other clock and has no threads.
///
///     auto clock = std::make_shared<cenote::manual_clock>();
///     cenote::pool<session> pool{connect, {.idle_timeout = 5min, .clock = clock}};
///     { auto s = pool.acquire(); }      // opened, used and returned
///     clock->advance(5min);             // retired and closed
///     assert(pool.stats().closed == 1);
///
/// The pool calls its connector and its observers on the thread that makes the call necessary, one
/// call after the other: in acquire, at the end of a lease, in advance(). Hold no lock there that
/// the connector or an observer takes. A connector calls advance() to be slow; the caller whose
/// acquire makes such a call returns after the call, even if its deadline has passed. There is no
/// fast lane, so times are exact.
///
/// On an executor (<cenote/asio.hpp>) the pool's calls run there: call the context's poll() after
/// advance().
///
/// Thread safety: all members may be called from any thread at any time. Time never goes backwards.
class manual_clock {
public:
    /// That of the steady clock, which this clock replaces.
    using time_point = std::chrono::steady_clock::time_point;

    /// What a thread does that waits for one of the pools.
    enum class waiting : std::uint8_t {
        moves_clock,  ///< Moves the clock to the next time at which something is due, until the
                      ///< wait ends. For tests with one thread. Sleeps if nothing is due and the
                      ///< wait has no deadline.
        sleeps,       ///< Sleeps until another thread ends a lease or moves the clock. For tests
                      ///< with several threads.
    };

    /// `how`: what a waiting thread does.
    explicit manual_clock(waiting how = waiting::moves_clock) noexcept;
    manual_clock(const manual_clock&) = delete;
    manual_clock& operator=(const manual_clock&) = delete;

    /// The clock's time; it begins at the time at which the clock was made. Deadlines of acquire
    /// are times of this clock.
    time_point now() const noexcept {
        return time_point{time_point::duration{now_.load(std::memory_order_acquire)}};
    }

    /// Moves the clock. Everything that is due by then happens before it returns, in order, each at
    /// its own time. Connector calls wait while another call of the same pool is running, on
    /// another thread or further up on this stack. Throws std::invalid_argument if `by` is
    /// negative.
    void advance(std::chrono::nanoseconds by);

    /// Moves the clock to a time. Does nothing if that time has passed.
    void advance_to(time_point to) noexcept;

    /// As passed to the constructor.
    waiting how() const noexcept { return how_; }

private:
    friend class shell::keeper;

    // For pools, which call these without holding their lock.
    void add(shell::keeper& k);
    void remove(shell::keeper& k) noexcept;
    /// Moves to the next time at which something is due, at most to `limit`. Returns false if
    /// nothing is due and there is no limit.
    bool advance_to_next(time_point limit) noexcept;

    struct due;
    due first_due() noexcept;
    void move_to(time_point to) noexcept;

    const waiting how_;
    std::atomic<time_point::rep> now_;
    std::vector<shell::keeper*> pools_;  // under the lock of the list of keepers
};

}  // namespace cenote

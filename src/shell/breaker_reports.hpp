// Reports to the breaker's strategy: how uses of resources ended, and what the strategy answers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>

#include "cenote/breaker.hpp"
#include "core/circuit.hpp"

namespace cenote::shell {

/// Reports are added under the keeper's lock and delivered outside it, in order, by one thread at a
/// time: the next thread that finds some undelivered.
class breaker_reports {
public:
    struct report {
        core::circuit_news what{};
        core::instant at{};
        std::uint64_t moves = 0;      // of the breaker, when it happened
        std::uint64_t successes = 0;  // before it
        core::instant succeeded_at{};
        std::uint64_t over_lane = 0;  // further successes, over the shelf
        std::exception_ptr error = nullptr;
        // Filled in by next().
        std::shared_ptr<breaker> to = nullptr;
        breaker_state present{};
        bool outdated =
            false;  // from before the last move: it says nothing about the present state
    };
    static constexpr std::size_t room = 64;
    using all_reports = std::array<report, room>;

    /// Throws invalid_option if the strategy belongs to another pool.
    explicit breaker_reports(const std::shared_ptr<breaker>& strategy)
        : strategy_(claim(strategy)) {}

    /// Makes a strategy belong to this pool, until the last copy of the returned pointer has gone.
    /// For null, returns the strategy for manual control: the first use in a recovery decides.
    /// Throws invalid_option if the strategy belongs to another pool.
    static std::shared_ptr<breaker> claim(std::shared_ptr<breaker> strategy);

    // Under the keeper's lock.

    /// Never allocates. If there is no room, only the successes are kept.
    void add(const report& r);
    /// Whether reports are waiting and no thread delivers them.
    bool need_delivery() const { return count_ > 0 && !delivering_; }
    /// True: the caller has to deliver, until next() returns false.
    bool begin_delivery();
    /// Requires an empty `r`: what it contained would end under the lock.
    bool next(report& r, const core::circuit& now);
    bool go_to(const breaker* strategy) const { return strategy_.get() == strategy; }
    /// The user's strategy; null: manual control.
    std::shared_ptr<breaker> strategy() const;
    /// Sets a claimed strategy and returns the one before. Undelivered reports go into `dropped`,
    /// to end outside the lock.
    std::shared_ptr<breaker> replace(std::shared_ptr<breaker> strategy, all_reports& dropped);
    /// In the child of a fork, where the delivering thread is gone.
    void restart() {
        count_ = 0;
        delivering_ = false;
    }
    /// Whether another thread is delivering.
    bool busy() const { return delivering_ && deliverer_ != std::this_thread::get_id(); }

    // Outside the lock.

    /// Delivers one report, unless it is outdated. Returns the move that the strategy wants.
    static std::optional<breaker_move> deliver(const report& r, std::string_view pool) noexcept;

private:
    std::shared_ptr<breaker> strategy_;
    all_reports queued_;  // a ring
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    bool delivering_ = false;
    std::thread::id deliverer_;
};

}  // namespace cenote::shell

// Tells the breaker's strategy how things go, and brings back what it rules.
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

/// News are noted under the keeper's lock and told outside it, in order, by one thread at a time:
/// whoever has some to tell when nobody is at it.
class umpire {
public:
    struct news {
        core::circuit_news what{};
        core::instant at{};
        std::uint64_t moves = 0;      // of the breaker, when it happened
        std::uint64_t successes = 0;  // before it
        core::instant succeeded_at{};
        std::uint64_t over_lane = 0;  // more of them, over the shelf
        std::exception_ptr error = nullptr;
        std::shared_ptr<breaker> told = nullptr;  // filled in by next()
    };
    static constexpr std::size_t room = 64;
    using all_news = std::array<news, room>;

    /// Without a strategy the circuit is opened by hand, and closed by the first success after.
    /// Throws invalid_option if another pool has it.
    explicit umpire(const std::shared_ptr<breaker>& strategy) : strategy_(claim(strategy)) {}

    /// Makes a strategy this pool's, until the last copy of what is returned has gone. Null: one
    /// for a circuit that is moved by hand. Throws invalid_option if another pool has it.
    static std::shared_ptr<breaker> claim(std::shared_ptr<breaker> strategy);

    // Under the keeper's lock.

    /// Never allocates. Without room for it, only its successes are kept.
    void note(const news& n);
    /// There are news, and no thread tells them.
    bool needs_telling() const { return count_ > 0 && !telling_; }
    /// True: the caller has to tell them, until next() finds nothing.
    bool begin();
    /// Into an empty `n`: what it had would end under the lock.
    bool next(news& n);
    bool tells(const breaker* strategy) const { return strategy_.get() == strategy; }
    /// The user's; null: the circuit is moved by hand.
    std::shared_ptr<breaker> strategy() const;
    /// From now on this one is told, which was claimed. What was noted goes `into`, to end outside
    /// the lock. Returns the strategy before.
    std::shared_ptr<breaker> replace(std::shared_ptr<breaker> strategy, all_news& into);
    /// In the child of a fork: whoever was at it is gone.
    void start_anew() {
        count_ = 0;
        telling_ = false;
    }
    /// Another thread is at it.
    bool busy() const { return telling_ && teller_ != std::this_thread::get_id(); }

    /// Outside the lock.
    static std::optional<breaker_move> rule(const news& n, std::string_view pool,
                                            breaker_state present) noexcept;

private:
    std::shared_ptr<breaker> strategy_;
    all_news noted_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    bool telling_ = false;
    std::thread::id teller_;
};

}  // namespace cenote::shell

// Tells the breaker's strategy how things go, and brings back what it rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
        std::uint64_t moves = 0;  // of the breaker, when it happened
    };

    /// Without a strategy the circuit is opened by hand, and closed by the first success after.
    explicit umpire(std::shared_ptr<breaker> strategy);

    // Under the keeper's lock.

    /// Never allocates: what there is no room for replaces what was noted first.
    void note(const news& n);
    /// True: the caller has to tell them, until next() finds nothing.
    bool begin();
    bool next(news& n);
    /// In the child of a fork: whoever was at it is gone.
    void start_anew() {
        count_ = 0;
        telling_ = false;
    }
    /// Another thread is at it.
    bool busy() const { return telling_ && teller_ != std::this_thread::get_id(); }

    /// Outside the lock. `anything_went_well`: without having been noted, since the last time.
    std::optional<breaker_move> rule(const news& n, breaker_state present,
                                     bool anything_went_well) noexcept;

private:
    static constexpr std::size_t room = 64;

    std::shared_ptr<breaker> strategy_;
    std::array<news, room> noted_;
    std::size_t first_ = 0;
    std::size_t count_ = 0;
    bool telling_ = false;
    std::thread::id teller_;
};

}  // namespace cenote::shell

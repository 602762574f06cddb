// Tells the breaker's strategy how things go.
#include "shell/umpire.hpp"

#include <algorithm>
#include <utility>

namespace cenote::shell {

using core::circuit_news;

umpire::umpire(std::shared_ptr<breaker> strategy) : strategy_(std::move(strategy)) {
    if (strategy_ == nullptr)
        strategy_ = std::make_shared<threshold_breaker>(
            threshold_breaker::settings{.failures = forever, .cool_down = forever});
}

void umpire::note(const news& n) {
    if (count_ == room) {
        first_ = (first_ + 1) % room;
        --count_;
    }
    noted_[(first_ + count_) % room] = n;
    ++count_;
}

bool umpire::begin() {
    if (telling_ || count_ == 0) return false;
    telling_ = true;
    teller_ = std::this_thread::get_id();
    return true;
}

bool umpire::next(news& n) {
    if (count_ == 0) {
        telling_ = false;
        return false;
    }
    n = noted_[first_];
    first_ = (first_ + 1) % room;
    --count_;
    return true;
}

std::optional<breaker_move> umpire::rule(const news& n, breaker_state present,
                                         bool anything_went_well) noexcept {
    try {
        switch (n.what) {
            case circuit_news::succeeded: return strategy_->succeeded(present);
            case circuit_news::failed: {
                if (anything_went_well)
                    if (auto ruling = strategy_->succeeded(present)) return ruling;
                return strategy_->failed(present);
            }
            case circuit_news::cooled_down: break;
        }
        return strategy_->cooled_down();
    } catch (...) {
        return std::nullopt;  // by contract: a strategy that throws changes nothing
    }
}

}  // namespace cenote::shell

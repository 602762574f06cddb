// Tells the breaker's strategy how things go.
#include "shell/umpire.hpp"

#include <utility>

namespace cenote {

/// Which strategies have a pool.
struct detail::breaker_owner {
    static bool take(breaker& b) noexcept { return !b.owned_.exchange(true); }
    static void let_go(breaker& b) noexcept { b.owned_.store(false); }
};

}  // namespace cenote

namespace cenote::shell {

using core::circuit_news;

namespace {

/// For a circuit that is moved by hand: the first use of a recovery decides.
class by_hand final : public breaker {
    std::optional<breaker_move> succeeded(const breaker_report& what) override {
        if (what.state != breaker_state::recovering) return std::nullopt;
        return breaker_move{.to = breaker_state::active};
    }
    std::optional<breaker_move> failed(const breaker_report& what) override {
        if (what.state != breaker_state::recovering) return std::nullopt;
        return breaker_move{.to = breaker_state::inactive, .cool_down = forever};
    }
    std::optional<breaker_move> cooled_down(const breaker_report&) override { return std::nullopt; }
};

/// Keeps a strategy that was claimed, and gives up the claim at its end.
struct claimed {
    std::shared_ptr<breaker> strategy;
    bool is_users = false;

    void operator()(breaker* b) const noexcept { detail::breaker_owner::let_go(*b); }
};

}  // namespace

std::shared_ptr<breaker> umpire::claim(std::shared_ptr<breaker> strategy) {
    bool is_users = strategy != nullptr;
    if (!is_users) strategy = std::make_shared<by_hand>();
    if (!detail::breaker_owner::take(*strategy))
        throw invalid_option("breaker", "a strategy that another pool has",
                             "must be this pool's own");
    breaker* owned = strategy.get();
    claimed kept{.strategy = std::move(strategy), .is_users = is_users};
    return {owned, std::move(kept)};  // if that throws, the claim has been given up
}

std::shared_ptr<breaker> umpire::strategy() const {
    const auto* kept = std::get_deleter<claimed>(strategy_);
    return kept != nullptr && kept->is_users ? kept->strategy : nullptr;
}

std::shared_ptr<breaker> umpire::replace(std::shared_ptr<breaker> strategy, all_news& into) {
    into.swap(noted_);
    count_ = 0;
    return std::exchange(strategy_, std::move(strategy));
}

void umpire::note(const news& n) {
    if (count_ == room) {
        news& last = noted_[(first_ + count_ - 1) % room];
        if (last.moves == n.moves) {
            last.successes += n.successes;
            last.over_lane += n.over_lane;
        }
        return;
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
    n = std::exchange(noted_[first_], {});
    n.told = strategy_;
    first_ = (first_ + 1) % room;
    --count_;
    return true;
}

/// First the successes, each sum with its time, then the rest. The last ruling counts.
std::optional<breaker_move> umpire::rule(const news& n, std::string_view pool,
                                         breaker_state present) noexcept {
    std::optional<breaker_move> ruling;
    auto follow = [&](const std::optional<breaker_move>& said) {
        if (said) ruling = said;
    };
    breaker_report what{.pool = pool, .state = present};
    try {
        what.at = n.succeeded_at;
        what.count = n.successes;
        if (n.successes > 0) follow(n.told->succeeded(what));
        what.at = n.at;
        what.count = n.over_lane;
        if (n.over_lane > 0) follow(n.told->succeeded(what));
        what.count = 1;
        what.error = n.error;
        if (n.what == circuit_news::failed) follow(n.told->failed(what));
        if (n.what == circuit_news::cooled_down) follow(n.told->cooled_down(what));
    } catch (...) {
        return std::nullopt;  // by contract: a strategy that throws changes nothing
    }
    return ruling;
}

}  // namespace cenote::shell

// Reports to the breaker's strategy: the queue, the delivery, and the strategy's owner.
#include "shell/breaker_reports.hpp"

#include <utility>

namespace cenote {

/// Marks the strategies that belong to a pool.
struct detail::breaker_owner {
    static bool take(breaker& b) noexcept { return !b.owned_.exchange(true); }
    static void give_up(breaker& b) noexcept { b.owned_.store(false); }
};

}  // namespace cenote

namespace cenote::shell {

using core::circuit_news;

namespace {

/// For manual control: the first use in a recovery decides.
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

/// The deleter of a claimed strategy: keeps it, and gives up the claim at the end.
struct claimed {
    std::shared_ptr<breaker> strategy;
    bool is_users = false;

    void operator()(breaker* b) const noexcept { detail::breaker_owner::give_up(*b); }
};

}  // namespace

std::shared_ptr<breaker> breaker_reports::claim(std::shared_ptr<breaker> strategy) {
    bool is_users = strategy != nullptr;
    if (!is_users) strategy = std::make_shared<by_hand>();
    if (!detail::breaker_owner::take(*strategy))
        throw invalid_option("breaker", "a strategy that another pool has",
                             "must be this pool's own");
    breaker* owned = strategy.get();
    claimed kept{.strategy = std::move(strategy), .is_users = is_users};
    return {owned, std::move(kept)};  // gives up the claim if it throws
}

std::shared_ptr<breaker> breaker_reports::strategy() const {
    const auto* kept = std::get_deleter<claimed>(strategy_);
    return kept != nullptr && kept->is_users ? kept->strategy : nullptr;
}

std::shared_ptr<breaker> breaker_reports::replace(std::shared_ptr<breaker> strategy,
                                                  all_reports& dropped) {
    dropped.swap(queued_);
    count_ = 0;
    return std::exchange(strategy_, std::move(strategy));
}

void breaker_reports::add(const report& r) {
    if (count_ == room) {
        report& last = queued_[(first_ + count_ - 1) % room];
        if (last.moves == r.moves) {
            last.successes += r.successes;
            last.over_lane += r.over_lane;
        }
        return;
    }
    queued_[(first_ + count_) % room] = r;
    ++count_;
}

bool breaker_reports::begin_delivery() {
    if (!need_delivery()) return false;
    delivering_ = true;
    deliverer_ = std::this_thread::get_id();
    return true;
}

bool breaker_reports::next(report& r, const core::circuit& now) {
    if (count_ == 0) {
        delivering_ = false;
        return false;
    }
    r = std::exchange(queued_[first_], {});
    r.to = strategy_;
    r.present = now.state();
    r.outdated = r.moves != now.moves();
    first_ = (first_ + 1) % room;
    --count_;
    return true;
}

/// First the successes, each sum with its own time, then the event itself. The last answer counts.
std::optional<breaker_move> breaker_reports::deliver(const report& r,
                                                     std::string_view pool) noexcept {
    if (r.outdated) return std::nullopt;
    std::optional<breaker_move> wanted;
    auto follow = [&](const std::optional<breaker_move>& answer) {
        if (answer) wanted = answer;
    };
    breaker_report what{.pool = pool, .state = r.present};
    try {
        what.at = r.succeeded_at;
        what.count = r.successes;
        if (r.successes > 0) follow(r.to->succeeded(what));
        what.at = r.at;
        what.count = r.over_lane;
        if (r.over_lane > 0) follow(r.to->succeeded(what));
        what.count = 1;
        what.error = r.error;
        if (r.what == circuit_news::failed) follow(r.to->failed(what));
        if (r.what == circuit_news::cooled_down) follow(r.to->cooled_down(what));
    } catch (...) {
        return std::nullopt;  // by contract: a strategy that throws changes nothing
    }
    return wanted;
}

}  // namespace cenote::shell

// Who is asked in whose place, and which failures mean that somebody else should be.
#include "database/places.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "cenote/breaker.hpp"
#include "cenote/error.hpp"
#include "cenote/server_error.hpp"

namespace cenote::database_detail {

namespace {

using clock = std::chrono::steady_clock;

/// Nothing can be opened there. (Whoever waits in vain for a pool that is only busy would wait in
/// vain elsewhere, too, and have the primary do the work of all replicas.)
bool is_away(const store& s, const pool_error& e) {
    if (e.code() == errc::unavailable || e.code() == errc::open_failed) return true;
    return e.code() == errc::timed_out && !s.has_links();
}

/// The time of one acquire, for all that are tried.
class patience {
public:
    patience(std::chrono::nanoseconds all, std::size_t places)
        : whole_(all), since_(clock::now()), places_(places) {}

    /// For the next one. One that has links may take all there is; of one that has none nobody
    /// knows, and the others must have their share.
    std::chrono::nanoseconds share_of(const store& next) {
        auto among = static_cast<std::int64_t>(std::max<std::size_t>(places_--, 1));
        if (whole_ == std::chrono::nanoseconds::max()) return whole_;
        auto left = std::max(whole_ - (clock::now() - since_), std::chrono::nanoseconds(0));
        return next.has_links() ? left : left / among;
    }

private:
    std::chrono::nanoseconds whole_;
    clock::time_point since_;
    std::size_t places_;  // that have not been tried
};

}  // namespace

std::vector<std::shared_ptr<store>> places::replicas_in_turn() {
    std::vector<std::shared_ptr<store>> all = replicas_;
    if (all.empty()) return all;
    std::size_t first = turn_.fetch_add(1, std::memory_order_relaxed) % all.size();
    std::ranges::rotate(all, all.begin() + static_cast<std::ptrdiff_t>(first));
    return all;
}

taken places::acquire_to_read(caller by) {
    if (replicas_.empty()) return {primary_, primary_->acquire(by)};
    patience p(by.how.timeout.value_or(primary_->acquire_timeout()), replicas_.size() + 1);
    for (const std::shared_ptr<store>& each : replicas_in_turn()) {
        try {
            by.how.timeout = p.share_of(*each);
            return {each, each->acquire(by)};
        } catch (const pool_error& e) {
            if (!is_away(*each, e)) throw;
        }
    }
    by.how.timeout = p.share_of(*primary_);
    return {primary_, primary_->acquire(by)};
}

asio::awaitable<taken> places::async_acquire_to_read(std::shared_ptr<places> among, caller by) {
    if (among->replicas_.empty()) {
        borrowed only = co_await among->primary_->async_acquire(by);
        co_return taken{among->primary_, std::move(only)};
    }
    patience p(by.how.timeout.value_or(among->primary_->acquire_timeout()),
               among->replicas_.size() + 1);
    std::vector<std::shared_ptr<store>> all = among->replicas_in_turn();
    for (const std::shared_ptr<store>& each : all) {
        try {
            by.how.timeout = p.share_of(*each);
            borrowed link = co_await each->async_acquire(by);
            co_return taken{each, std::move(link)};
        } catch (const pool_error& e) {
            if (!is_away(*each, e)) throw;
        }
    }
    by.how.timeout = p.share_of(*among->primary_);
    borrowed link = co_await among->primary_->async_acquire(by);
    co_return taken{among->primary_, std::move(link)};
}

std::vector<pool_control> places::controls() const {
    std::vector<pool_control> all{primary_->control()};
    for (const std::shared_ptr<store>& each : replicas_) all.push_back(each->control());
    return all;
}

std::vector<stats> places::stats_of_each() const {
    std::vector<cenote::stats> all{primary_->stats()};
    for (const std::shared_ptr<store>& each : replicas_) all.push_back(each->stats());
    return all;
}

void places::close() noexcept {
    primary_->close();
    for (const std::shared_ptr<store>& each : replicas_) each->close();
}

std::shared_ptr<store> replica_of(std::shared_ptr<server> at, const options& of_primary,
                                  std::size_t number) {
    options o = of_primary;
    o.name += "-replica-" + std::to_string(number);
    auto strategy = [] {
        return std::make_shared<threshold_breaker>(
            threshold_breaker::settings{.failures = 2, .cool_down = std::chrono::seconds(2)});
    };
    o.breaker = strategy();
    // An open that hangs has failed while whoever waits for it can still go elsewhere.
    if (o.acquire_timeout > std::chrono::nanoseconds(0))
        o.open_timeout = std::min(o.open_timeout, o.acquire_timeout / 4);
    try {
        return std::make_shared<store>(at, o);
    } catch (const server_error& e) {
        if (e.kind() == error_kind::final) throw;
    }
    o.warm_up = warm_up::background;
    o.breaker = strategy();
    return std::make_shared<store>(std::move(at), o);
}

}  // namespace cenote::database_detail

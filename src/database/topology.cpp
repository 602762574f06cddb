// Replicas take turns, and the primary stands in for replicas that are down.
#include "database/topology.hpp"

#include <algorithm>
#include <cstdint>
#include <string>

#include "cenote/breaker.hpp"
#include "cenote/server_error.hpp"
#include "database/scope_connection.hpp"

namespace cenote::database_detail {

route::route(server_pool_ptr primary, std::vector<server_pool_ptr> replicas, const call& as)
    : primary_(std::move(primary)), replicas_(std::move(replicas)), as_(as) {
    if (replicas_.empty()) return;
    since_ = std::chrono::steady_clock::now();
    if (!as_.how.timeout) as_.how.timeout = primary_->acquire_timeout;
}

bool route::go_on_after(const pool_error& e) {
    if (next_ == replicas_.size()) return false;
    bool is_down = e.code() == errc::unavailable || e.code() == errc::open_failed ||
                   (e.code() == errc::timed_out && !pool()->has_connections());
    if (is_down) ++next_;
    return is_down;
}

/// A pool that has connections may take all the time that is left. One that has none may be down,
/// so it gets an equal share with the pools after it.
call route::call_to_pool() const {
    call to_pool = as_;
    if (replicas_.empty() || *as_.how.timeout == std::chrono::nanoseconds::max()) return to_pool;
    auto passed = std::chrono::steady_clock::now() - since_;
    auto left = std::max(*as_.how.timeout - passed, std::chrono::nanoseconds(0));
    auto pools_left = static_cast<std::int64_t>(replicas_.size() + 1 - next_);
    to_pool.how.timeout = pool()->has_connections() ? left : left / pools_left;
    return to_pool;
}

std::shared_ptr<scope_connection> topology::connection(const call& as) {
    return std::make_shared<scope_connection>(primary_, nullptr, session_use::statement, as);
}

std::vector<server_pool_ptr> topology::replicas_in_turn() {
    std::vector<server_pool_ptr> all = replicas_;
    if (all.empty()) return all;
    std::size_t first = turn_.fetch_add(1, std::memory_order_relaxed) % all.size();
    std::ranges::rotate(all, all.begin() + static_cast<std::ptrdiff_t>(first));
    return all;
}

std::vector<pool_control> topology::controls() const {
    std::vector<pool_control> all{primary_->pool.control()};
    for (const server_pool_ptr& each : replicas_) all.push_back(each->pool.control());
    return all;
}

std::vector<stats> topology::stats_of_each() const {
    std::vector<cenote::stats> all{primary_->pool.stats()};
    for (const server_pool_ptr& each : replicas_) all.push_back(each->pool.stats());
    return all;
}

void topology::close() noexcept {
    listeners_.stop();
    primary_->pool.close();
    for (const server_pool_ptr& each : replicas_) each->pool.close();
}

server_pool_ptr make_replica_pool(const server& to, options of_primary, std::size_t number) {
    options how = std::move(of_primary);
    how.name += "-replica-" + std::to_string(number);
    auto new_breaker = [] {
        return std::make_shared<threshold_breaker>(
            threshold_breaker::settings{.failures = 2, .cool_down = std::chrono::seconds(2)});
    };
    how.breaker = new_breaker();
    // An open that hangs fails while its waiters still have time for another server.
    if (how.acquire_timeout > std::chrono::nanoseconds(0))
        how.open_timeout = std::min(how.open_timeout, how.acquire_timeout / 4);
    try {
        return std::make_shared<server_pool>(to, how);
    } catch (const server_error& e) {
        if (e.kind() == error_kind::final) throw;
    }
    how.warm_up = warm_up::background;
    how.breaker = new_breaker();
    return std::make_shared<server_pool>(to, how);
}

}  // namespace cenote::database_detail

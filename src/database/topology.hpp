// The servers of a database: its primary and its replicas, and which of them a connection comes
// from.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "cenote/database.hpp"
#include "cenote/error.hpp"
#include "cenote/stats.hpp"
#include "database/listening.hpp"
#include "database/server_pool.hpp"

namespace cenote::database_detail {

/// The pools that one acquire tries in turn, within the time of one acquire: replicas, and at last
/// the primary.
class route {
public:
    route(server_pool_ptr primary, std::vector<server_pool_ptr> replicas, const call& as);

    const server_pool_ptr& pool() const noexcept {
        return next_ < replicas_.size() ? replicas_[next_] : primary_;
    }
    connection_lease acquire() { return pool()->acquire(call_to_pool()); }
    asio::awaitable<connection_lease> async_acquire() {
        return pool()->async_acquire(call_to_pool());
    }
    /// Goes on to the next pool if this error means that no connection can be opened here. False:
    /// the acquire has failed. A replica whose connections are all in use does not count: its
    /// readers would have the primary do the work of all replicas.
    bool go_on_after(const pool_error& e);

private:
    call call_to_pool() const;

    server_pool_ptr primary_;
    std::vector<server_pool_ptr> replicas_;
    std::size_t next_ = 0;
    call as_;
    std::chrono::steady_clock::time_point since_;
};

/// Runs each statement on a connection of its own, of the primary.
class topology final : public executor {
public:
    topology(server_pool_ptr primary, std::vector<server_pool_ptr> replicas) noexcept
        : primary_(std::move(primary)), replicas_(std::move(replicas)) {}

    const server_pool_ptr& primary() const noexcept { return primary_; }
    /// All of them, beginning with another one each time.
    std::vector<server_pool_ptr> replicas_in_turn();

    /// The primary's come first.
    std::vector<cenote::stats> stats_of_each() const;
    std::vector<pool_control> controls() const;
    database_detail::listeners& listeners() noexcept { return listeners_; }
    void close() noexcept;

private:
    std::shared_ptr<scope_connection> connection(const call& as) override;

    server_pool_ptr primary_;
    std::vector<server_pool_ptr> replicas_;
    std::atomic<std::size_t> turn_{0};
    database_detail::listeners listeners_;
};

/// The pool of a replica, which reports soon when the replica is down, since the primary can take
/// over. The replica need not be up yet. Throws errors that trying again cannot cure.
server_pool_ptr make_replica_pool(const server& to, options of_primary, std::size_t number);

}  // namespace cenote::database_detail

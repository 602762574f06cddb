// Where a database goes: to its primary, or to a replica if somebody only reads.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "cenote/stats.hpp"
#include "database/store.hpp"

namespace cenote::database_detail {

/// A link, and whose it is.
struct taken {
    std::shared_ptr<store> from;
    borrowed link;
};

class places {
public:
    /// `replicas`: perhaps none.
    places(std::shared_ptr<store> primary, std::vector<std::shared_ptr<store>> replicas) noexcept
        : primary_(std::move(primary)), replicas_(std::move(replicas)) {}

    const std::shared_ptr<store>& primary() const noexcept { return primary_; }

    /// For somebody who only reads: of a replica, each in its turn; of the primary if none is well.
    /// One that is only busy is waited for: what it cannot do the primary could not, either.
    taken acquire_to_read(caller by);
    static asio::awaitable<taken> async_acquire_to_read(std::shared_ptr<places> among, caller by);

    /// The primary's first.
    std::vector<cenote::stats> stats_of_each() const;
    std::vector<pool_control> controls() const;
    void close() noexcept;

private:
    std::vector<std::shared_ptr<store>> replicas_in_turn();

    std::shared_ptr<store> primary_;
    std::vector<std::shared_ptr<store>> replicas_;
    std::atomic<std::size_t> turn_{0};
};

/// One that others can stand in for: if it is not well, it says so soon. Need not be there yet, but
/// throws what will not be any better later.
std::shared_ptr<store> replica_of(std::shared_ptr<server> at, const options& of_primary,
                                  std::size_t number);

}  // namespace cenote::database_detail

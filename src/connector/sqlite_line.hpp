// The line of writers: SQLite lets one connection write at a time, and orders the others by chance.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <system_error>

#include "cenote/asio.hpp"
#include "cenote/lease.hpp"
#include "cenote/options.hpp"
#include "cenote/pool.hpp"

namespace cenote::sqlite::detail {

/// The connections of one connector that want to write, in order of arrival, except that newcomers
/// may overtake for a millisecond.
///
/// Without the line, SQLite makes a connection that finds the lock taken try again after a pause,
/// so newcomers get the lock as often as those that have waited: of ten connections that write all
/// the time, some wait for seconds, until SQLite reports a locked database. With the line only one
/// of them asks SQLite for the lock: the one that has the permit. Connections of other connectors
/// and processes still compete at SQLite's own lock.
class writers_line {
public:
    struct permit {};
    using turn = lease<permit>;
    using instant = std::chrono::steady_clock::time_point;

    /// Empty: another connection has the turn, or no connection has had one yet.
    turn try_take() { return permits().try_acquire(); }
    /// Empty: the time is over.
    turn take_until(instant when) {
        std::error_code late;
        return permits().acquire({.deadline = when}, late);
    }
    /// Throws pool_error if the time is over.
    boost::asio::awaitable<turn> async_take_until(instant when) {
        return permits().async_acquire_until(when, boost::asio::use_awaitable);
    }

    std::size_t waiting() { return permits().stats().waiting; }

private:
    /// A pool of one permit, made by the first writer: a pool has threads.
    pool<permit>& permits() {
        std::call_once(made_, [this] {
            permits_.emplace([] { return permit{}; },
                             cenote::options{.name = "sqlite writers",
                                             .max = 1,
                                             .idle_timeout = forever,
                                             .max_lifetime = forever,
                                             .leak_after = forever,
                                             // A write often takes less time than a thread switch.
                                             .fairness = fairness::bounded,
                                             // One thread may begin a transaction and another one
                                             // end it.
                                             .refuse_deadlock = false});
        });
        return *permits_;
    }

    std::once_flag made_;
    std::optional<pool<permit>> permits_;
};

}  // namespace cenote::sqlite::detail

// Who writes next: SQLite lets one connection write at a time, and has no order for the others.
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

/// Those of one connector's connections who want to write, in the order in which they came (but for
/// the millisecond in which somebody may be overtaken).
///
/// SQLite has whoever finds the lock taken try again after a while, and is as likely to give it to
/// somebody who has just come: of ten connections that write all the time some wait for seconds,
/// until they are told that the database is locked. With a line, only one of them asks SQLite for
/// the lock: the one who has the pen, of which there is one. Other connectors and other processes
/// still meet at SQLite's own.
class writers_line {
public:
    struct pen {};
    using turn = lease<pen>;
    using instant = std::chrono::steady_clock::time_point;

    /// Empty: somebody else has it, or nobody has had it yet.
    turn try_take() { return pens().try_acquire(); }
    /// Empty: not until then.
    turn take_until(instant when) {
        std::error_code late;
        return pens().acquire({.deadline = when}, late);
    }
    /// Throws pool_error if it was not until then.
    boost::asio::awaitable<turn> async_take_until(instant when) {
        return pens().async_acquire_until(when, boost::asio::use_awaitable);
    }

    /// How many wait for it.
    std::size_t waiting() { return pens().stats().waiting; }

private:
    /// A pool has threads, and not everybody writes.
    pool<pen>& pens() {
        std::call_once(made_, [this] {
            pens_.emplace(
                [] { return pen{}; },
                cenote::options{.name = "sqlite writers",
                                .max = 1,
                                .idle_timeout = forever,
                                .max_lifetime = forever,
                                .leak_after = forever,
                                // Most write for less time than a switch of threads takes.
                                .fairness = fairness::bounded,
                                // What one thread has begun to write another may end.
                                .refuse_deadlock = false});
        });
        return *pens_;
    }

    std::once_flag made_;
    std::optional<pool<pen>> pens_;
};

}  // namespace cenote::sqlite::detail

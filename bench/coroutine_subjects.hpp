// cenote as used by coroutines of Asio and of a user without a framework.
#pragma once

#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>

#include "asio_peers.hpp"
#include "cenote/asio.hpp"
#include "cenote/coroutine.hpp"
#include "cenote/per_executor.hpp"
#include "run_queue.hpp"
#include "subjects.hpp"

namespace cenote::bench {

/// A pool for coroutines of the loop: acquire() returns an awaitable whose result points to a
/// resource and is passed to release().
template <class Pool, class Loop>
concept pool_on = std::constructible_from<Pool, Loop&, std::size_t> && requires(Pool& pool) {
    pool.acquire();
    &Pool::release;
};

/// Limits that no waiter reaches.
inline const options without_limits{.acquire_timeout = std::chrono::seconds(60),
                                    .line_max = 1'000'000};

/// cenote, awaited in coroutines of Asio.
struct cenote_on_asio : cenote_pool {
    cenote_on_asio(asio_loop&, std::size_t size) : cenote_pool(size, without_limits) {}

    auto acquire() { return pool.co_acquire(); }
    static void release(lease<resource> back) { back.give_back(); }
};

/// cenote with a shard per loop; an exhausted shard takes idle resources from others.
struct cenote_on_loops {
    cenote_on_loops(asio_loop_each& on, std::size_t size)
        : pool(on.loops, open_resource, cenote_pool::full(size, without_limits), stealing::on) {}

    auto acquire() { return pool.async_acquire(asio::use_awaitable); }
    static void release(lease<resource> back) { back.give_back(); }

    per_executor<resource> pool;
};

/// cenote, awaited in the user's own coroutines.
struct cenote_on_queue : cenote_pool {
    cenote_on_queue(run_queue& l, std::size_t size) : cenote_pool(size, without_limits), loop(l) {}

    auto acquire() {
        return pool.co_acquire().resumed_by(
            [at = &loop](std::coroutine_handle<> ready) { at->post(ready); });
    }
    static void release(lease<resource> back) { back.give_back(); }

    run_queue& loop;
};

}  // namespace cenote::bench

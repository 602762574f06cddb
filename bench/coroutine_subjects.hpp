// cenote as coroutines use it: Asio's, and those of a user without a framework.
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

/// A pool that is measured: what acquire() returns can be awaited in a coroutine of the loop, and
/// gives what points to a thing and is handed to release().
template <class Pool, class Loop>
concept pool_on = std::constructible_from<Pool, Loop&, std::size_t> && requires(Pool& pool) {
    pool.acquire();
    &Pool::release;
};

/// Nobody is refused, however many there are.
inline const options patient{.acquire_timeout = std::chrono::seconds(60), .line_max = 1'000'000};

/// cenote, awaited in Asio's coroutines.
struct cenote_on_asio : cenote_pool {
    cenote_on_asio(asio_loop&, std::size_t size) : cenote_pool(size, patient) {}

    auto acquire() { return pool.co_acquire(); }
    static void release(lease<thing> back) { back.give_back(); }
};

/// cenote, with a shard on each loop; an exhausted one takes what is ready in the others.
struct cenote_on_loops {
    cenote_on_loops(asio_loop_each& on, std::size_t size)
        : pool(on.loops, open_thing, cenote_pool::full(size, patient), stealing::on) {}

    auto acquire() { return pool.async_acquire(asio::use_awaitable); }
    static void release(lease<thing> back) { back.give_back(); }

    per_executor<thing> pool;
};

/// cenote, awaited in coroutines of one's own.
struct cenote_on_queue : cenote_pool {
    cenote_on_queue(run_queue& l, std::size_t size) : cenote_pool(size, patient), loop(l) {}

    auto acquire() {
        return pool.co_acquire().resumed_by(
            [at = &loop](std::coroutine_handle<> ready) { at->post(ready); });
    }
    static void release(lease<thing> back) { back.give_back(); }

    run_queue& loop;
};

}  // namespace cenote::bench

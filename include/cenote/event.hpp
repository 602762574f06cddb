// What a pool tells its observers.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <source_location>
#include <string_view>

#include "cenote/breaker.hpp"
#include "cenote/error.hpp"
#include "cenote/stats.hpp"

namespace cenote {

enum class event_kind : std::uint8_t {
    opened,           ///< A resource was opened; `took`: how long that took.
    open_failed,      ///< An open failed or timed out; `cause`, `took`.
    acquired,         ///< A lease was granted; `took`: how long its holder waited.
    released,         ///< A lease came back; `took`: how long it was held.
    discarded,        ///< Its holder gave the resource up.
    detached,         ///< Its holder took the resource out of the pool.
    retired,          ///< The pool gave the resource up; `why`, `cause` if before_release threw.
    probe_failed,     ///< A probe said no, threw or timed out; `cause` if it threw.
    reset_failed,     ///< A reset threw or timed out; `cause` if it threw.
    closed,           ///< A resource is gone; `cause` if its close threw.
    exhausted,        ///< An acquire is about to be refused; `error`, `now`.
    loop_blocked,     ///< A thread of the pool's own loop must block in a call of the pool; `site`.
    nested_acquire,   ///< A thread that holds a lease waits for another one; `site`. With `max`
                      ///< threads doing so at a time, all of them wait for ever.
    leak_suspected,   ///< A lease is held for long; `took`: so far, `site`, `task`.
    breaker_changed,  ///< The circuit breaker has moved; `breaker`.
    paused,           ///< The pool lends nothing until it is resumed.
    resumed,          ///< It lends again.
    closing,          ///< The pool was closed; leases may still be out.
    closed_pool,      ///< The last resource of a closed pool is gone.
};
inline constexpr std::size_t event_kind_count = 19;

/// The word for a kind, as in the enum.
const char* to_string(event_kind kind) noexcept;

/// One thing that happened. Only the fields named at its kind carry a meaning; views and pointers
/// are good for the duration of the call.
struct event {
    event_kind kind{};
    std::string_view pool;               ///< The pool's name.
    std::uint64_t resource = 0;          ///< Which resource: a number never used twice.
    std::chrono::nanoseconds took{};     ///< See the kind.
    retire_reason why{};                 ///< With `retired`.
    errc error{};                        ///< With `exhausted`.
    const stats* now = nullptr;          ///< With `exhausted`.
    std::exception_ptr cause = nullptr;  ///< What the connector threw, if it did.
    std::source_location site{};         ///< Which call: that blocks, or got the lease.
    const char* task = nullptr;          ///< What the lease is for (acquire_options), or null.
    breaker_state breaker{};             ///< With `breaker_changed`: the new state.
};

}  // namespace cenote

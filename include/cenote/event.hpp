// The events that a pool reports to its observers.
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
#include "cenote/trace_context.hpp"

namespace cenote {

/// The kinds of events. Each names the fields of `event` that it sets, besides `pool`, and
/// `resource` where it is about one.
enum class event_kind : std::uint8_t {
    opened,           ///< A resource was opened; `took`: the duration of the open.
    open_failed,      ///< An open failed or timed out; `cause`, `took`.
    acquired,         ///< A lease was granted; `took`: the duration of the wait.
    released,         ///< A lease ended; `took`: how long it was held.
    discarded,        ///< A lease ended with a discard.
    detached,         ///< A lease ended with lease::detach().
    retired,          ///< The pool retired a resource; `why`, `cause` if before_release threw.
    probe_failed,     ///< A probe returned false, threw or timed out; `cause` if it threw.
    reset_failed,     ///< A reset threw or timed out; `cause` if it threw.
    closed,           ///< A resource was closed; `cause` if its close threw.
    exhausted,        ///< An acquire is about to be refused; `error`, `now`, `took`: how long it
                      ///< has waited, `at`, `site`, `task`, `trace`.
    loop_blocked,     ///< A thread of the pool's own loop blocks in a call of the pool; `site`.
    nested_acquire,   ///< A thread that holds a lease waits for another one; `site`. If `max`
                      ///< threads do this at the same time, none of them can go on.
    leak_suspected,   ///< A lease is held for long; `took`: so far, `site`, `task`.
    breaker_changed,  ///< The circuit breaker changed its state; `breaker`.
    paused,           ///< The pool was paused.
    resumed,          ///< The pool was resumed.
    closing,          ///< The pool was closed; leases may still be out.
    closed_pool,      ///< The last resource of a closed pool is gone.
    waited,           ///< An acquire that had to wait was granted its lease; `took`: the duration
                      ///< of the wait, `at`, `opened_here`, `site`, `task`, `trace`. An acquire of
                      ///< several leases has one such event, with its last resource.
};
inline constexpr std::size_t event_kind_count = 20;

/// The enumerator's name.
const char* to_string(event_kind kind) noexcept;

/// One event. Only the fields named at its kind carry a meaning. Views and pointers are valid
/// during the call of the observer.
struct event {
    event_kind kind{};                   ///< What happened.
    std::string_view pool;               ///< The pool's name.
    std::uint64_t resource = 0;          ///< The resource's number, never used twice.
    std::chrono::nanoseconds took{};     ///< A duration; see the kind.
    retire_reason why{};                 ///< With `retired`.
    errc error{};                        ///< With `exhausted`.
    const stats* now = nullptr;          ///< With `exhausted`.
    std::exception_ptr cause = nullptr;  ///< What the connector threw, or null.
    std::source_location site{};         ///< The call that blocks, or that acquires.
    const char* task = nullptr;          ///< acquire_options::task, or null.
    breaker_state breaker{};             ///< With `breaker_changed`: the new state.
    bool opened_here = false;            ///< With `waited`: as lease::opened_here.
    trace_context trace{};               ///< acquire_options::trace of this very acquire.
    /// With `waited` and `exhausted`: when the wait ended. It began at `at - took`.
    std::chrono::steady_clock::time_point at{};
};

}  // namespace cenote

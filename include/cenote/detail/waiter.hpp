// A waiter in line, as the keeper sees it. How a waiter sleeps and wakes is up to the wait_ files
// and the coroutine headers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <source_location>

#include "cenote/detail/process.hpp"
#include "cenote/error.hpp"
#include "cenote/options.hpp"
#include "cenote/trace_context.hpp"

namespace cenote::detail {

class gate;
struct resource;

/// What a waiter waits for.
enum class wait_target : std::uint8_t {
    lease,
    drained,  // the pool is closed and empty
    ready,    // the minimum is open
};

/// The part of acquire_options that a waiter keeps. Trivial.
struct lease_terms {
    const char* task = nullptr;
    std::chrono::nanoseconds leak_after{0};  // zero: options::leak_after
    priority rank = priority::normal;
    bool queues = true;  // acquire_options::queue
};

inline constexpr auto no_deadline = std::chrono::steady_clock::time_point::max();

/// A request by a coroutine or an Asio operation. Trivial: g++ 12 destroys other aggregates twice
/// when they are arguments in a co_await expression.
struct wait_request {
    gate* from;
    wait_target what;
    std::chrono::nanoseconds timeout;  // from the arrival; negative: only `deadline` counts
    std::chrono::steady_clock::time_point deadline;
    std::source_location site;
    lease_terms terms = {};
    stop_reference stop = {};
    const trace_context* trace = nullptr;  // null: none; a waiter copies it
};

/// Lives on the waiting thread's stack, in a coroutine's frame or in an Asio operation until
/// notify() has been called. The keeper writes it under its lock while it waits.
class waiter {
public:
    virtual ~waiter() = default;
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;

    /// The wait has ended: `got` and `error` are set. Called once, outside the lock. The waiter may
    /// be gone afterwards.
    virtual void notify() noexcept = 0;

    // A grant reads and writes these four, so they share a cache line. The order of the others
    // keeps the constructor short.
    resource* got = nullptr;                          // null: refused
    errc error{};                                     // zero if the target was reached
    std::atomic<process_number> process{no_process};  // where it waits; no_process: it does not

    bool cannot_wait = false;    // refuse it instead: the pool needs the thread that would block
    bool wants_several = false;  // it is a thread_waiter that wants more than one

    // For coroutines and Asio operations.
    wait_target what = wait_target::lease;
    bool asynchronous = false;  // not a thread: a blocking before_acquire must run elsewhere
    bool stopped = false;       // the wait was canceled
    bool withdrawn = false;     // it is being destroyed: do not notify it
    bool keeps_keeper = false;  // it was refused and has a reference, until drop_reference()

    lease_terms wants;
    std::source_location site;

    std::chrono::steady_clock::time_point arrived{};
    std::uint64_t ticket = 0;
    waiter* next = nullptr;    // in a waiter_list
    std::uint64_t holder = 0;  // the number of the thread that waits; 0: none does
    std::size_t left = 0;      // with `drained`: leases still out

    std::chrono::steady_clock::time_point deadline = no_deadline;
    std::chrono::nanoseconds timeout{-1};  // not negative: limits the deadline on arrival
    std::uint64_t place = nowhere;         // in the line, the last one: a core::waiter_id
    const trace_context* trace = nullptr;  // acquire_options::trace, if there is one

    /// Whether this acquire has been in line.
    bool was_in_line() const noexcept { return place != nowhere; }

protected:
    static constexpr std::uint64_t nowhere = ~std::uint64_t{0};

    waiter() = default;
};

/// The trace of a waiter that outlives the call that made it. Without one it costs nothing but its
/// place: traces are rare.
class kept_trace {
public:
    // Not initialized.
    kept_trace() noexcept {}  // NOLINT(modernize-use-equals-default)
    kept_trace(const kept_trace&) = delete;
    kept_trace& operator=(const kept_trace&) = delete;
    ~kept_trace() = default;

    /// A copy of the trace; null for null.
    const trace_context* keep(const trace_context* from) noexcept {
        if (from == nullptr) [[likely]]
            return nullptr;
        return ::new (static_cast<void*>(&it_)) trace_context(*from);
    }

private:
    union {
        trace_context it_;
    };
};

}  // namespace cenote::detail

// Somebody in line, as the keeper sees it: how one waits is up to the wait_ files and the
// coroutine headers.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <source_location>

#include "cenote/detail/process.hpp"
#include "cenote/error.hpp"
#include "cenote/options.hpp"

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

/// What a coroutine or an Asio operation waits for. Trivial: g++ 12 destroys other aggregates twice
/// when they are arguments in a co_await expression.
struct wait_request {
    gate* from;
    wait_target what;
    std::chrono::nanoseconds timeout;  // negative: `deadline` counts instead
    std::chrono::steady_clock::time_point deadline;
    std::source_location site;
    lease_terms terms = {};
    stop_reference stop = {};
};

/// Lives with whoever waits (a stack, a coroutine frame) until notify() has been called.
class waiter {
public:
    virtual ~waiter() = default;
    waiter(const waiter&) = delete;
    waiter& operator=(const waiter&) = delete;

    /// The outcome is there. Called once, outside the lock; the waiter may be gone afterwards.
    virtual void notify() noexcept = 0;

    // Together what a grant reads and writes. Otherwise in an order in which it is quick to make.
    resource* got = nullptr;                          // null: refused
    errc error{};                                     // with `drained` and `ready`: zero if well
    std::atomic<process_number> process{no_process};  // where it waits; none: it does not, any more

    bool cannot_wait = false;    // the pool needs the thread it would block
    bool wants_several = false;  // a many_waiter

    // For those who do not wait as threads.
    wait_target what = wait_target::lease;
    bool asynchronous = false;  // connectors are not called where it waits, unless they are quick
    bool stopped = false;       // somebody wants it to stop waiting
    bool withdrawn = false;     // it is going away: not to be notified
    bool keeps_keeper = false;  // it got no lease, and the keeper stays until forget()

    lease_terms wants;
    std::source_location site;

    std::chrono::steady_clock::time_point arrived{};
    std::uint64_t ticket = 0;
    waiter* next = nullptr;    // in a chain of those to be notified
    std::uint64_t holder = 0;  // the thread that waits, if it is one
    std::size_t left = 0;      // with `drained`: leases still out

    std::chrono::steady_clock::time_point deadline{};
    std::chrono::nanoseconds timeout{-1};  // unless negative: the deadline counts from when it asks
    std::uint64_t place = nowhere;         // its name in the line

protected:
    static constexpr std::uint64_t nowhere = ~std::uint64_t{0};

    waiter() = default;
};

}  // namespace cenote::detail

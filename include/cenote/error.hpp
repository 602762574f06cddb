// Why an acquire failed: error codes for the no-throw forms, one exception type per case.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <system_error>

namespace cenote {

struct stats;

/// The reasons for which a pool refuses an acquire.
enum class errc : int {
    timed_out = 1,  ///< The deadline passed. The pool may only be busy.
    closed,         ///< The pool was closed.
    unavailable,    ///< The circuit breaker is open.
    line_full,      ///< `line_max` callers wait, or the caller does not queue
                    ///< (`acquire_options::queue`) and would have to wait for a lease.
    shed,         ///< Refused early: waiters have been served late for too long (`options::shed`).
    canceled,     ///< The caller's stop token received a stop request.
    open_failed,  ///< An open failed with a final error, or with open_errors::fail_fast.
    deadlock,     ///< The wait could never end: every lease is held by a thread that waits in
                  ///< this pool; or the caller blocks the event loop that runs the pool; or a
                  ///< `resize` made `max` smaller than the caller's `acquire_many`.
};
inline constexpr std::size_t errc_count = 8;

/// The enumerator's name.
const char* to_string(errc code) noexcept;

/// The category of `errc`, named "cenote".
const std::error_category& pool_category() noexcept;

/// Makes `errc` convertible to std::error_code.
inline std::error_code make_error_code(errc e) noexcept {
    return {static_cast<int>(e), pool_category()};
}

/// Base of the exceptions that an acquire throws. `what()` says how many resources are leased, by
/// which call sites and for how long, how many callers wait, and how the last open ended, for
/// example `timed out after 2.0 s waiting for a lease of "orders": 32 of 32 leased (orders.cpp:88
/// holds 20, oldest 14 s; report.cpp:12 holds 12), 41 waiting, last open 0.3 s ago: ok`.
class pool_error : public std::system_error {
public:
    /// For use by the library. `seen`: the pool's stats when the error was created.
    pool_error(errc code, std::string text, std::exception_ptr cause = nullptr,
               std::chrono::nanoseconds retry_after = {}, std::string pool = {},
               std::shared_ptr<const cenote::stats> seen = nullptr);

    /// The whole text.
    const char* what() const noexcept override { return about_->text.c_str(); }

    /// The name of the pool (options::name).
    const std::string& pool() const noexcept { return about_->pool; }

    /// The pool's stats when the error was created (<cenote/stats.hpp>).
    const cenote::stats& stats() const noexcept { return *about_->seen; }

    /// The error of the last open; null if it succeeded, or if no open has ended yet.
    const std::exception_ptr& cause() const noexcept { return cause_; }

    /// Estimated time to wait before a retry: the breaker's cool-down, or an estimate from the rate
    /// at which leases end. For `timed_out`, `unavailable`, `line_full` and `shed`.
    std::chrono::nanoseconds retry_after() const noexcept { return retry_after_; }

private:
    struct details {
        std::string text;
        std::string pool;
        std::shared_ptr<const cenote::stats> seen;
    };
    std::shared_ptr<const details> about_;  // shared: copying an exception must not throw
    std::exception_ptr cause_;
    std::chrono::nanoseconds retry_after_;
};

/// The exception for one error code.
template <errc Code>
class pool_error_of : public pool_error {
public:
    /// Takes the arguments of pool_error's constructor, except the code.
    explicit pool_error_of(std::string text, std::exception_ptr cause = nullptr,
                           std::chrono::nanoseconds retry_after = {}, std::string pool = {},
                           std::shared_ptr<const cenote::stats> seen = nullptr)
        : pool_error(Code, std::move(text), std::move(cause), retry_after, std::move(pool),
                     std::move(seen)) {}
};

/// The exceptions that an acquire throws, one for each reason.
using timed_out_error = pool_error_of<errc::timed_out>;
using closed_error = pool_error_of<errc::closed>;
using unavailable_error = pool_error_of<errc::unavailable>;
using line_full_error = pool_error_of<errc::line_full>;
using shed_error = pool_error_of<errc::shed>;
using canceled_error = pool_error_of<errc::canceled>;
using open_failed_error = pool_error_of<errc::open_failed>;
using deadlock_error = pool_error_of<errc::deadlock>;

/// Throws the exception type of `code`.
[[noreturn]] void throw_pool_error(errc code, std::string text, std::exception_ptr cause,
                                   std::chrono::nanoseconds retry_after = {}, std::string pool = {},
                                   std::shared_ptr<const stats> seen = nullptr);

}  // namespace cenote

template <>
struct std::is_error_code_enum<cenote::errc> : std::true_type {};

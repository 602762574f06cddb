// Why calls of the connector failed, as far as the pool tells others.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "core/instant.hpp"

namespace cenote::shell {

/// Everything here runs under the keeper's lock. An exception may be the user's and ends with the
/// last reference to it, which must not happen under the lock: a replaced exception is kept until
/// take_replaced().
class open_log {
public:
    /// An open has ended. Null: it succeeded.
    void record(core::instant now, const std::exception_ptr& error) {
        ended_at_ = now;
        if (error != nullptr && first_error_ == nullptr) first_error_ = error;
        std::exception_ptr old = std::exchange(error_, error);
        // If two opens end in one step, the caller still has the second exception.
        if (replaced_ == nullptr) replaced_ = std::move(old);
    }
    /// Of the last open; null if it succeeded.
    const std::exception_ptr& error() const { return error_; }
    /// `long_ago`: none has ended.
    core::instant ended_at() const { return ended_at_; }
    /// Of the first open that failed.
    const std::exception_ptr& first_error() const { return first_error_; }
    std::exception_ptr take_replaced() { return std::exchange(replaced_, nullptr); }

    /// The machine is being told of a failure of `resource`.
    void begin_answer(const std::exception_ptr& error, std::uint64_t resource) {
        cause_ = error;
        cause_of_ = resource;
    }
    void end_answer() {
        if (cause_ != nullptr) cause_ = nullptr;
    }
    /// The exception, if the machine is being told of a failure of `resource`.
    std::exception_ptr cause_of(std::uint64_t resource) const {
        return resource == cause_of_ ? cause_ : nullptr;
    }

    /// The exception of a call that was abandoned: of an open, or of a close.
    const std::exception_ptr& timed_out(bool opens) const {
        return opens ? open_timed_out_ : close_timed_out_;
    }

    /// In the child of a fork.
    void restart() {
        ended_at_ = core::long_ago;
        replaced_ = std::exchange(error_, nullptr);
    }

private:
    static std::exception_ptr took_too_long(const std::string& verb) {
        return std::make_exception_ptr(
            std::system_error(std::make_error_code(std::errc::timed_out),
                              "the " + verb + " took longer than " + verb + "_timeout"));
    }

    std::exception_ptr cause_;
    std::uint64_t cause_of_ = 0;
    std::exception_ptr error_;
    std::exception_ptr replaced_;
    std::exception_ptr first_error_;
    core::instant ended_at_ = core::long_ago;
    const std::exception_ptr open_timed_out_ = took_too_long("open");
    const std::exception_ptr close_timed_out_ = took_too_long("close");
};

}  // namespace cenote::shell

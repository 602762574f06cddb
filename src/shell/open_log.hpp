// Why calls of the connector failed, as far as the pool has to tell others.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "core/instant.hpp"

namespace cenote::shell {

/// Everything here runs under the keeper's lock. An exception may be the user's, and end with the
/// last reference to it: that must not happen under the lock, so what is replaced is kept until
/// take_forgotten().
class open_log {
public:
    /// An open has ended; null: it went well.
    void note(core::instant now, const std::exception_ptr& error) {
        ended_at_ = now;
        if (error != nullptr && first_error_ == nullptr) first_error_ = error;
        std::exception_ptr old = std::exchange(error_, error);
        // A second one in the same step is not the last of its kind: its caller still has it.
        if (forgotten_ == nullptr) forgotten_ = std::move(old);
    }
    /// Of the last open; null if it went well.
    const std::exception_ptr& error() const { return error_; }
    /// `long_ago`: none has ended.
    core::instant ended_at() const { return ended_at_; }
    /// The first of all opens that failed.
    const std::exception_ptr& first_error() const { return first_error_; }
    std::exception_ptr take_forgotten() { return std::exchange(forgotten_, nullptr); }

    /// The failure that is being answered, and which resource it is of.
    void begin_answer(const std::exception_ptr& error, std::uint64_t resource) {
        cause_ = error;
        cause_of_ = resource;
    }
    void end_answer() {
        if (cause_ != nullptr) cause_ = nullptr;
    }
    /// What made `resource` fail, if that is what is being answered.
    std::exception_ptr cause_of(std::uint64_t resource) const {
        return resource == cause_of_ ? cause_ : nullptr;
    }

    /// A call was given up: an open, or a close.
    const std::exception_ptr& timed_out(bool opens) const {
        return opens ? open_timed_out_ : close_timed_out_;
    }

    /// In the child of a fork.
    void start_anew() {
        ended_at_ = core::long_ago;
        forgotten_ = std::exchange(error_, nullptr);
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
    std::exception_ptr forgotten_;
    std::exception_ptr first_error_;
    core::instant ended_at_ = core::long_ago;
    const std::exception_ptr open_timed_out_ = took_too_long("open");
    const std::exception_ptr close_timed_out_ = took_too_long("close");
};

}  // namespace cenote::shell

// What a service says over HTTP about its pools, for any HTTP library: refusals as answers,
// /health, /ready and /metrics.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cenote/metrics.hpp"
#include "cenote/stats.hpp"

namespace cenote {

/// What an HTTP server is to say.
class answer {
public:
    /// `text` is meant for people; `content_type` says if it is not.
    explicit answer(int status, std::string text = {},
                    std::string content_type = "text/plain; charset=utf-8")
        : status_(status), body_(std::move(text)), content_type_(std::move(content_type)) {}

    int status() const noexcept { return status_; }
    const std::string& body() const noexcept { return body_; }
    const std::string& content_type() const noexcept { return content_type_; }

    /// The field Retry-After: whole seconds, at least one. Empty: none.
    const std::optional<std::chrono::seconds>& retry_after() const noexcept { return retry_after_; }
    /// Rounded up, and to a minute at most: whoever is told to stay away longer does not come back.
    answer& retry_after(std::chrono::nanoseconds in) noexcept;

private:
    int status_;
    std::string body_;
    std::string content_type_;
    std::optional<std::chrono::seconds> retry_after_;
};

/// An answer as an exception, for whoever is deep in the work and wants it undone:
///
///     if (order.status != "open") throw cenote::answer_error(409, "it is paid already");
class answer_error : public std::exception {
public:
    explicit answer_error(answer a) : answer_(std::make_shared<const answer>(std::move(a))) {}
    answer_error(int status, std::string text) : answer_error(answer(status, std::move(text))) {}

    const char* what() const noexcept override { return answer_->body().c_str(); }
    const answer& get() const noexcept { return *answer_; }

private:
    std::shared_ptr<const answer> answer_;  // shared: copying an exception must not throw
};

/// What to answer to somebody whose request failed with `error`. A pool that is exhausted or
/// unavailable (timed_out, line_full, shed, unavailable) is a 503 with Retry-After; an answer_error
/// is what it says. Empty for everything else: that is the program's own.
///
/// The answer says nothing of what is in the pool's error, which names lines of the program.
std::optional<answer> answer_to(const std::exception_ptr& error);

/// Calls `work`, which returns an answer, and returns that, or what answer_to() makes of its
/// exception; throws on what that leaves alone. A handler in a transaction is
///
///     return cenote::answering([&] { return db.transaction([&](cenote::transaction& t) { … }); });
template <class Work>
answer answering(Work&& work) {
    try {
        return std::forward<Work>(work)();
    } catch (...) {
        if (std::optional<answer> known = answer_to(std::current_exception()))
            return *std::move(known);
        throw;
    }
}

}  // namespace cenote

// What a service says over HTTP about its pools, for any HTTP library: refusals as answers,
// /health, /ready and /metrics.
#pragma once

#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/metrics.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/stats.hpp"

namespace cenote {

/// What an HTTP server is to say.
class answer {
public:
    /// `text` is meant for people; `content_type` says if it is not. Throws std::invalid_argument
    /// for a type with control characters in it: they would end the field and begin another.
    explicit answer(int status, std::string text = {},
                    std::string content_type = "text/plain; charset=utf-8");

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

/// How a pool is watched.
struct watch_options {
    /// So many must be open, or the service is not ready: the larger of the pool's `min_size` and
    /// `min_idle`. (Zero: the first request may have to wait for an open.)
    std::size_t minimum = 0;
    /// Whether the service can do nothing without it. How others are is told, but does not count.
    bool vital = true;
};

/// What a service tells about itself and its pools, to those who watch it:
///
///     cenote::service about;
///     auto watched = about.watch("orders", db, {.minimum = 2});
///     … if (auto said = about.answer_to(path)) …          // /health, /ready, /metrics
///     … about.announce_end();                             // first of all, when it is to end
///
/// It asks for stats and for nothing else: no lease is taken, no lock that an acquire needs.
///
/// Thread safety: all members may be called from any thread at any time.
class service {
public:
    /// Keeps a pool among those that are watched, until it ends; then nobody looks at the pool any
    /// more, and it may go. May outlive the service.
    class entry {
    public:
        entry() = default;
        entry(entry&&) noexcept = default;
        entry& operator=(entry&& other) noexcept;
        ~entry();

    private:
        friend class service;
        struct list;
        struct part {
            std::string name;
            cenote::metrics::entry counted;
        };
        entry(std::shared_ptr<list> in, std::vector<part> parts) noexcept;
        void leave() noexcept;

        std::shared_ptr<list> in_;
        std::vector<part> parts_;  // several, if it is a database with replicas
    };

    service();
    ~service();
    service(const service&) = delete;
    service& operator=(const service&) = delete;

    /// See metrics::add for the name, for `read`, and for what it throws.
    [[nodiscard]] entry watch(const std::string& name, std::function<stats()> read,
                              const watch_options& how);
    /// Of a pool, which must be there until the entry ends.
    template <class Pool>
        requires requires(const Pool& p) {
            { p.stats() } -> std::same_as<stats>;
        }
    [[nodiscard]] entry watch(const std::string& name, const Pool& pool,
                              const watch_options& how = {}) {
        if constexpr (requires { pool.stats_of_each(); })
            return watch_each(name, pool.controls(), how);
        else return watch(name, [&pool] { return pool.stats(); }, how);
    }
    /// Of a database, or what else has several pools: the first is what counts. The others are
    /// called `name-replica-1` and so on, and are not vital: without them the first serves.
    [[nodiscard]] entry watch_each(const std::string& name, const std::vector<pool_control>& pools,
                                   const watch_options& how = {});

    /// Whether its pools can serve, as far as one knows without asking them to: 200, or 503 if a
    /// vital one has its circuit breaker inactive, is paused or closed, or has nothing open and
    /// fails to open anything (that is forgotten after half a minute without another failure, so
    /// that somebody tries again). An object of JSON that says so of each pool.
    answer health() const;
    /// Whether requests should be sent here: the same, the minimum of each is open, and no end was
    /// announced.
    answer ready() const;
    /// As Prometheus reads them.
    answer metrics_text() const;

    /// Of these three, the one that is at `/health`, `/ready` or `/metrics`.
    std::optional<answer> answer_to(std::string_view path) const;

    /// From now on it is not ready: whoever spreads requests looks there, and sends no more. To be
    /// called some time before the door is shut.
    void announce_end() noexcept { ending_ = true; }
    bool is_ending() const noexcept { return ending_; }

    /// To which others can be added, that are no matter of health.
    cenote::metrics& metrics() noexcept { return metrics_; }

private:
    answer report(bool of_readiness) const;
    entry::part add(const std::string& name, std::function<stats()> read, const watch_options& how);

    cenote::metrics metrics_;
    std::shared_ptr<entry::list> list_;
    std::atomic<bool> ending_{false};
};

}  // namespace cenote

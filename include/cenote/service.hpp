// HTTP answers for pool errors, and /health, /ready and /metrics, for any HTTP library.
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

/// An HTTP response, independent of any HTTP library.
class answer {
public:
    /// `status`: the HTTP status. `text`: the body. Throws std::invalid_argument if `content_type`
    /// contains control characters, which would allow a caller to inject header fields.
    explicit answer(int status, std::string text = {},
                    std::string content_type = "text/plain; charset=utf-8");

    /// As passed to the constructor.
    int status() const noexcept { return status_; }
    const std::string& body() const noexcept { return body_; }
    const std::string& content_type() const noexcept { return content_type_; }

    /// The value of the field Retry-After. Empty: no such field.
    const std::optional<std::chrono::seconds>& retry_after() const noexcept { return retry_after_; }
    /// Sets Retry-After, rounded up to seconds and limited to 1 to 60: clients that are told to
    /// wait longer may not retry at all.
    answer& retry_after(std::chrono::nanoseconds in) noexcept;

private:
    int status_;
    std::string body_;
    std::string content_type_;
    std::optional<std::chrono::seconds> retry_after_;
};

/// An answer as an exception, to abort the work and roll back its transaction:
///
///     if (order.status != "open") throw cenote::answer_error(409, "the order is already paid");
///
/// Copies share the answer, so copying does not throw.
class answer_error : public std::exception {
public:
    /// The answer, or its status and body.
    explicit answer_error(answer a) : answer_(std::make_shared<const answer>(std::move(a))) {}
    answer_error(int status, std::string text) : answer_error(answer(status, std::move(text))) {}

    /// The body of the answer.
    const char* what() const noexcept override { return answer_->body().c_str(); }
    /// The answer.
    const answer& get() const noexcept { return *answer_; }

private:
    std::shared_ptr<const answer> answer_;
};

/// The answer for a request that failed with `error`:
///
/// | error                                                       | answer                      |
/// |-------------------------------------------------------------|-----------------------------|
/// | pool_error: timed_out, line_full, shed, unavailable         | 503 with Retry-After        |
/// | answer_error                                                | the answer it contains      |
/// | any other, and null                                         | empty: the caller decides   |
///
/// The 503 does not contain the text of the pool's error, which names lines of the program.
std::optional<answer> answer_to(const std::exception_ptr& error);

/// Returns the answer that `work` returns, or answer_to() of its exception. Rethrows exceptions for
/// which answer_to() is empty. A handler in a transaction:
///
///     return cenote::answering([&] { return db.transaction(create_order); });
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

/// How a pool affects the health of a service.
struct watch_options {
    /// Default 0; the first requests may wait for an open. How many resources must be open for the
    /// service to be ready. Set it to the larger of the pool's `min_size` and `min_idle`: a larger
    /// value may never be reached.
    std::size_t minimum = 0;
    /// Default true. Whether the service is down when the pool is. Set false for a pool whose
    /// failure requests can survive, such as a cache; reports still show its state.
    bool vital = true;
};

/// Reports the health of a service from the stats of its pools:
///
///     cenote::service about;
///     auto watched = about.watch("orders", db, {.minimum = 2});
///     auto answer = about.answer_to(path);  // for /health, /ready and /metrics
///     about.announce_end();                 // the first step of a shutdown
///
/// A report reads stats only: it takes no lease, and no lock that an acquire needs.
///
/// Thread safety: all members may be called from any thread at any time.
class service {
public:
    /// Includes one or more pools while it exists. Destroy it before the pools; it may outlive the
    /// service.
    ///
    /// The destructor waits for a report that is in progress. After that the service does not
    /// access the pools.
    class entry {
    public:
        /// An entry for no pool.
        entry() = default;
        entry(entry&&) noexcept = default;
        entry& operator=(entry&&) noexcept = default;
        ~entry() = default;

    private:
        friend class service;
        struct registration;
        std::shared_ptr<registration> registration_;
    };

    /// Without pools.
    service();
    ~service() = default;
    service(const service&) = delete;
    service& operator=(const service&) = delete;

    /// Includes the pool whose stats `read` returns. Requirements for `name` and `read`, and what
    /// is thrown: see metrics::add.
    [[nodiscard]] entry watch(const std::string& name, std::function<stats()> read,
                              const watch_options& how);
    /// Includes a pool, or all pools of a database. It must outlive the entry.
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
    /// Includes several pools of which only the first is needed, like a primary and its replicas.
    /// `how` applies to the first. The others are named `name-replica-1` and so on, and are not
    /// vital.
    [[nodiscard]] entry watch_each(const std::string& name, const std::vector<pool_control>& pools,
                                   const watch_options& how = {});

    /// 200 if all vital pools can serve, else 503; the body is a JSON object with the state of each
    /// pool. A pool is down if it is paused or closed, if its circuit breaker is inactive, or if
    /// nothing is open and opens fail. A failed open counts for 30 seconds, so that a service
    /// without traffic gets another chance.
    answer health() const;
    /// Like health(), and 503 also if a vital pool has less open than its minimum, or after
    /// announce_end(). For load balancers.
    answer ready() const;
    /// The metrics of all pools as Prometheus text.
    answer metrics_text() const;

    /// health(), ready() or metrics_text() for the paths `/health`, `/ready` and `/metrics`; empty
    /// for any other path.
    std::optional<answer> answer_to(std::string_view path) const;

    /// Makes `/ready` fail, so load balancers stop routing here. Call it a few seconds before
    /// closing the listener.
    void announce_end() noexcept { ending_ = true; }
    /// Whether announce_end() was called.
    bool is_ending() const noexcept { return ending_; }

    /// The metrics registry; pools added here do not affect `/health`.
    cenote::metrics& metrics() noexcept { return metrics_; }

private:
    answer report(bool for_readiness) const;
    void add(entry& to, const std::string& name, std::function<stats()> read,
             const watch_options& how);

    cenote::metrics metrics_;
    struct list;
    std::shared_ptr<list> list_;
    std::atomic<bool> ending_{false};
};

}  // namespace cenote

// An observer that logs pool events through spdlog. Needs spdlog 1.10; link cenote::spdlog.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <spdlog/fwd.h>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/observer.hpp"

namespace cenote {

/// Logs one line per event. Add it to `options::observers`:
///
///     auto log = std::make_shared<cenote::spdlog_observer>();
///     cenote::pool<session> pool{connect, {.name = "orders", .observers = {log}}};
///
/// > pool "orders": opened resource 1 in 12 ms, its first
/// > pool "orders": could not open a resource (3.0 s): connection refused (27 more left out)
///
/// | level   | events                                                                            |
/// |---------|-----------------------------------------------------------------------------------|
/// | warning | open, probe, reset or close failed; an acquire was refused; a call blocks the     |
/// |         | pool's event loop; nested acquire; suspected leak; circuit breaker inactive       |
/// | info    | the first open, and the first after failed ones; circuit breaker active; paused,  |
/// |         | resumed, closing, closed                                                          |
/// | debug   | other opens and closes; retired, discarded, detached; an acquire was canceled or  |
/// |         | came after the pool was closed; circuit breaker recovering                        |
/// | trace   | each lease, acquired and released. Costs the fast lane while the logger logs it   |
///
/// The logger's level at the time a pool is made decides which events that pool reports: events
/// below the level cost nothing, and lowering the level later does not add them.
///
/// A warning is suppressed if the same warning of the same pool was logged less than a second
/// before. The next logged one, or the end of the pool, tells how many were left out. So a server
/// that is down does not fill the disk.
///
/// Thread safety: one observer may serve several pools if the logger's sinks are thread-safe
/// ("_mt").
class spdlog_observer : public observer {
public:
    /// Logs to spdlog's default logger at the time of this call. Throws std::invalid_argument if
    /// there is none.
    spdlog_observer();
    /// Logs to `to`. Throws std::invalid_argument if it is null.
    explicit spdlog_observer(std::shared_ptr<spdlog::logger> to);
    ~spdlog_observer() override;

    /// Whether the logger's level includes any event of this kind.
    bool wants(event_kind kind) const override;
    /// Logs the event. What a sink throws goes to the logger's error handler.
    void on_event(const event& what) override;

protected:
    /// The clock that decides which repetitions are suppressed. Tests override it.
    virtual std::chrono::steady_clock::time_point now() const;

private:
    /// A logged warning, and how many repetitions were suppressed since.
    struct warning {
        std::string subject;
        std::chrono::steady_clock::time_point at;
        std::uint64_t suppressed = 0;
    };
    /// What was logged about one pool. Erased when the pool ends.
    struct pool_log {
        bool opened = false;
        std::uint64_t failed_opens = 0;                     // since the last reported success
        std::chrono::steady_clock::time_point quiet_until;  // of reports of such successes
        std::array<std::vector<warning>, event_kind_count> warnings;
    };

    pool_log& pool(std::string_view name);
    void log_opened(const event& what);
    void log_warning(const event& what);
    void log_end(const event& what);
    /// Whether to log the warning. If so, sets how many repetitions were suppressed before.
    bool admit(const event& what, const std::string& subject, std::uint64_t& suppressed);

    std::shared_ptr<spdlog::logger> to_;
    std::mutex mutex_;
    std::map<std::string, pool_log, std::less<>> pools_;
};

}  // namespace cenote

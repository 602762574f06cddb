// Writes what happens in a pool into a log of spdlog. Needs spdlog 1.10; link cenote::spdlog.
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

/// An observer that logs, one line for each event:
///
///     pool "orders": opened resource 1 in 12 ms, its first
///     pool "orders": could not open a resource (3.0 s): connection refused (27 more left out)
///
/// | level   | what                                                                              |
/// |---------|-----------------------------------------------------------------------------------|
/// | warning | open, probe, reset or close failed; an acquire is refused; a loop is blocked; a  |
/// |         | lease is held for long; the circuit breaker is inactive                           |
/// | info    | the first open, and the first after failed ones; the circuit breaker is active;   |
/// |         | paused, resumed, closing, closed                                                  |
/// | debug   | other opens and closes, retired, discarded, detached; an acquire is refused       |
/// |         | because it was canceled or the pool is closed; the circuit breaker is recovering  |
/// | trace   | every lease; costs the fast lane, but only if the logger logs it                  |
///
/// Which events it wants follows from the logger's level when the pool is made: what is below costs
/// nothing, and is not logged by pools made earlier if the level is lowered later.
///
/// A warning that says the same as another one of its pool and kind less than a second ago is left
/// out and counted; the next one, or the end of the pool, tells how many. So a server that is down
/// does not fill the disk.
///
/// Thread safety: one may serve several pools, as long as the logger's sinks are of the kind for
/// several threads ("_mt").
class spdlog_observer : public observer {
public:
    /// Logs to spdlog's default logger, as it is now.
    spdlog_observer();
    /// Throws std::invalid_argument if there is no logger.
    explicit spdlog_observer(std::shared_ptr<spdlog::logger> to);
    ~spdlog_observer() override;

    bool wants(event_kind kind) const override;
    void on_event(const event& what) override;

protected:
    /// The time, for leaving out what repeats itself.
    virtual std::chrono::steady_clock::time_point now() const;

private:
    /// A warning that was logged, and what was left out since because it said the same.
    struct warned {
        std::string gist;
        std::chrono::steady_clock::time_point at;
        std::uint64_t left_out = 0;
    };
    /// What is known of one pool, until its end.
    struct known {
        bool opened = false;
        std::uint64_t failed_opens = 0;                     // since it was told that one succeeded
        std::chrono::steady_clock::time_point quiet_until;  // nothing is told of such success
        std::array<std::vector<warned>, event_kind_count> warnings;
    };
    using pools = std::map<std::string, known, std::less<>>;

    known& pool(std::string_view name);
    void log_opened(const event& what);
    void log_warning(const event& what);
    void log_end(const event& what);
    /// Whether to log it, and then in `left_out` how many were not.
    bool admit(const event& what, const std::string& gist, std::uint64_t& left_out);

    std::shared_ptr<spdlog::logger> to_;
    std::mutex mutex_;
    pools pools_;
};

}  // namespace cenote

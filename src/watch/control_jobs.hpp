// Runs control commands on threads of their own.
#pragma once

#include <functional>
#include <list>
#include <memory>

#include "watch/dashboard_request.hpp"
#include "watch/dashboard_state.hpp"

namespace cenote::detail {

/// A control command can run user code that blocks, removes the pool from the dashboard or destroys
/// the dashboard: a coroutine that gets a lease, the strategy of a breaker. So each command runs on
/// its own thread.
///
/// Thread safety: one thread at a time.
class control_jobs {
public:
    using callback = std::function<void(const control_result&)>;

    control_jobs() = default;
    /// Waits for all jobs, except one that calls this destructor. No callback runs after that.
    ~control_jobs();
    control_jobs(const control_jobs&) = delete;
    control_jobs& operator=(const control_jobs&) = delete;

    /// Calls `done` with the result, on the job's thread. Throws std::system_error if no thread can
    /// be started.
    void run(std::shared_ptr<dashboard_state> on, control_command command, callback done);

private:
    struct job;

    void join_finished();

    std::list<std::shared_ptr<job>> jobs_;
};

}  // namespace cenote::detail

// The threads that run control commands: started, joined, detached.
#include "watch/control_jobs.hpp"

#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

namespace cenote::detail {

/// Shared with its thread, which outlives control_jobs if the command destroys the dashboard.
struct control_jobs::job {
    void report(const control_result& result) {
        std::lock_guard lock(mutex);
        if (done) done(result);
        done = nullptr;
    }
    void silence() {
        std::lock_guard lock(mutex);
        done = nullptr;
    }

    std::mutex mutex;
    callback done;
    std::atomic<bool> finished{false};
    std::thread thread;
};

control_jobs::~control_jobs() {
    for (const auto& each : jobs_) each->silence();
    for (const auto& each : jobs_) {
        if (each->thread.get_id() == std::this_thread::get_id()) each->thread.detach();
        else each->thread.join();
    }
}

void control_jobs::run(std::shared_ptr<dashboard_state> on, control_command command,
                       callback done) {
    join_finished();
    auto one = std::make_shared<job>();
    one->done = std::move(done);
    jobs_.push_back(one);
    try {
        one->thread = std::thread([one, on = std::move(on), command = std::move(command)] {
            try {
                one->report(on->execute(command));
            } catch (...) {  // out of memory: the client's request times out
                one->silence();
            }
            one->finished = true;
        });
    } catch (...) {
        jobs_.pop_back();
        throw;
    }
}

void control_jobs::join_finished() {
    std::erase_if(jobs_, [](const std::shared_ptr<job>& each) {
        if (!each->finished) return false;
        each->thread.join();
        return true;
    });
}

}  // namespace cenote::detail

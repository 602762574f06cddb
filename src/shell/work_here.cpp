// Connector calls on the thread that makes them necessary.
#include "shell/work_here.hpp"

#include <memory>

#include "cenote/detail/process.hpp"
#include "shell/keeper.hpp"

namespace cenote::shell {

bool work_here::is_mine() const { return worker_ == std::this_thread::get_id(); }

/// True also if another thread is at work and may have looked for the last time: do_jobs() finds
/// out.
bool work_here::look(core::instant /*wake_at*/) {
    return !stopping_ && home_.has_jobs() && depth_ == 0;
}

/// False: there were none, or another thread does them.
bool work_here::do_jobs(bool nested) noexcept {
    const detail::process_number here = detail::this_process;
    std::unique_lock lock(home_.lock());
    if (depth_ > 0 && !(nested && is_mine())) return false;
    worker_ = std::this_thread::get_id();
    ++depth_;
    bool any = false;
    for (job j; !stopping_ && home_.next_job(j); j = {}) {
        lock.unlock();
        home_.run(j);
        any = true;
        if (detail::this_process != here) return true;  // forked by what it called
        lock.lock();
    }
    if (--depth_ == 0) {
        worker_ = {};
        rests_.notify_all();
    }
    return any;
}

bool work_here::do_something(core::instant until) noexcept {
    if (do_jobs(true)) return true;
    return how_ == manual_clock::waiting::moves_clock && home_.let_time_pass(until);
}

bool work_here::helpless(std::size_t /*own*/) const { return home_.has_jobs() && is_mine(); }

void work_here::start_anew() {
    worker_ = {};
    depth_ = 0;
    std::construct_at(&rests_);
}

void work_here::stop(std::unique_lock<std::mutex>& lock) noexcept {
    stopping_ = true;
    rests_.wait(lock, [&] { return depth_ == 0 || is_mine(); });
}

}  // namespace cenote::shell

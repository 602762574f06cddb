// Connector calls on the thread that makes them necessary.
#include "shell/work_inline.hpp"

#include <chrono>
#include <memory>

#include "shell/operations.hpp"

namespace cenote::shell {

bool work_inline::runs_here() const {
    for (const loop* l = loops_.first(); l != nullptr; l = l->next)
        if (l->thread == std::this_thread::get_id()) return true;
    return false;
}

bool work_inline::runs_elsewhere() const {
    for (const loop* l = loops_.first(); l != nullptr; l = l->next)
        if (!l->hangs && l->thread != std::this_thread::get_id()) return true;
    return false;
}

/// A running loop finds the jobs itself: it ends under the same lock under which it last looked.
bool work_inline::schedule(core::instant /*wake_at*/) {
    home_.lock.is_held();
    return !stopping_ && home_.has_jobs() && !runs_here() && !runs_elsewhere();
}

/// False: there were no jobs, or another thread does them.
bool work_inline::do_jobs(bool nested) noexcept {
    pool_guard lock(home_.lock);
    if (!nested && runs_here()) return false;
    loop mine;
    loops_.add(mine);
    bool any = false;
    while (!stopping_ && !runs_elsewhere() && next_job(home_, mine.running)) {
        mine.hangs = mine.running.is_orphans();  // it may never return
        lock.unlock();
        shell::run(home_, mine.running);
        lock.lock();
        mine.running = {};
        mine.hangs = false;
        any = true;
    }
    loops_.remove(mine);
    loop_ended_.notify_all();
    return any;
}

bool work_inline::make_progress(core::instant until) noexcept {
    if (do_jobs(true)) return true;
    if (!home_.waits_move_clock()) return false;
    {
        // No time passes while a call runs on another thread.
        pool_guard lock(home_.lock);
        if (runs_elsewhere()) {
            loop_ended_.wait_for(lock, std::chrono::milliseconds{1});
            return true;
        }
    }
    return home_.let_time_pass(until);
}

void work_inline::abandoned(core::slot_id slot, std::uint64_t call) {
    for (loop* l = loops_.first(); l != nullptr; l = l->next)
        if (l->running.slot == slot && l->running.call == call) l->hangs = true;
}

bool work_inline::is_stuck(std::size_t /*own*/) const {
    home_.lock.is_held();
    return home_.has_jobs() && runs_here();
}

void work_inline::restart() {
    loops_.clear();
    std::construct_at(&loop_ended_);
}

void work_inline::stop(pool_guard& lock) noexcept {
    stopping_ = true;
    loop_ended_.wait(lock, [&] { return !runs_elsewhere(); });
}

}  // namespace cenote::shell

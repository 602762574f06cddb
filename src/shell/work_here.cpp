// Connector calls on the thread that makes them necessary.
#include "shell/work_here.hpp"

#include <chrono>
#include <memory>

#include "shell/around.hpp"

namespace cenote::shell {

bool work_here::works_here() const {
    for (const loop* l = loops_; l != nullptr; l = l->next)
        if (l->thread == std::this_thread::get_id()) return true;
    return false;
}

bool work_here::works_elsewhere() const {
    for (const loop* l = loops_; l != nullptr; l = l->next)
        if (!l->stuck && l->thread != std::this_thread::get_id()) return true;
    return false;
}

/// A loop that is under way finds the jobs itself: it ends under the lock under which it has looked
/// for the last time.
bool work_here::look(core::instant /*wake_at*/) {
    home_.lock.is_held();
    return !stopping_ && home_.has_jobs() && !works_here() && !works_elsewhere();
}

/// False: there were none, or another thread does them.
bool work_here::do_jobs(bool nested) noexcept {
    holding lock(home_.lock);
    if (!nested && works_here()) return false;
    loop mine{.next = loops_};
    loops_ = &mine;
    bool any = false;
    while (!stopping_ && !works_elsewhere() && next_job(home_, mine.running)) {
        const job& j = mine.running;
        mine.stuck = j.call == 0 && !j.tells && j.admits == nullptr;  // an orphan may hang for ever
        lock.unlock();
        shell::run(home_, mine.running);
        lock.lock();
        mine.running = {};
        mine.stuck = false;
        any = true;
    }
    end(mine);
    return any;
}

void work_here::end(const loop& gone) {
    loop** at = &loops_;
    while (*at != &gone) at = &(*at)->next;
    *at = gone.next;
    rests_.tell_all();
}

bool work_here::do_something(core::instant until) noexcept {
    if (do_jobs(true)) return true;
    if (!home_.waits_move_clock()) return false;
    {
        // No time passes for a call that is under way on another thread.
        holding lock(home_.lock);
        if (works_elsewhere()) {
            rests_.wait_for(lock, std::chrono::milliseconds{1});
            return true;
        }
    }
    return home_.let_time_pass(until);
}

void work_here::abandoned(core::slot_id slot, std::uint64_t call) {
    for (loop* l = loops_; l != nullptr; l = l->next)
        if (l->running.slot == slot && l->running.call == call) l->stuck = true;
}

bool work_here::helpless(std::size_t /*own*/) const {
    home_.lock.is_held();
    return home_.has_jobs() && works_here();
}

void work_here::start_anew() {
    loops_ = nullptr;
    std::construct_at(&rests_);
}

void work_here::stop(holding& lock) noexcept {
    stopping_ = true;
    rests_.wait(lock, [&] { return !works_elsewhere(); });
}

}  // namespace cenote::shell

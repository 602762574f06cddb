// Threads for connector calls that block, and the minder of the clock.
#include "shell/work_thread.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <pthread.h>
#include <system_error>
#include <utility>

#include "shell/around.hpp"

namespace cenote::shell {

namespace {

using namespace std::chrono_literals;

/// How long a worker stays without work.
constexpr auto linger = 5s;
/// How long to wait before trying again to start a thread when the system has refused one.
constexpr auto refused_pause = 100ms;

void name_this_thread(const std::string& pool, const char* role) {
    std::string name = pool.substr(0, 9) + role;  // Linux allows 15 characters
    pthread_setname_np(pthread_self(), name.c_str());
}

}  // namespace

work_thread::work_thread(keeper& home, const options& settings)
    : work_blocking(home),
      name_(settings.name),
      opening_max_(settings.opening_max),
      tellers_(settings.observers.empty() ? 0 : 1) {
    resized(settings.max);
}

/// As many calls at a time as opens may be in flight, and some for everything else. Never fewer
/// than before: what a smaller maximum leaves over has to be closed, and the idle go anyway.
void work_thread::resized(std::size_t max) {
    limit_ = std::max(limit_, std::min(max, std::min(max, opening_max_) + 8) + tellers_);
}

void work_thread::start_up() {
    holding lock(home_.lock);
    if (started() || stopping_) return;
    minder_ = std::thread([this] { mind(); });
    has_started();
    home_.add_ref();
}

bool work_thread::must_hire() const {
    home_.lock.is_held();
    return home_.jobs_waiting() > idle_ + starting_ && active_ < limit_ && !overwhelmed();
}

bool work_thread::helpless(std::size_t own) const {
    home_.lock.is_held();
    return home_.has_jobs() && active_ <= own && (overwhelmed() || refused_ || !started());
}

bool work_thread::look(core::instant wake_at) {
    home_.lock.is_held();
    std::size_t calls = std::min(home_.jobs_waiting(), idle_);
    std::size_t more = calls > summoned_ ? calls - summoned_ : 0;
    summoned_ += more;
    to_wake_.fetch_add(more, std::memory_order_relaxed);
    bool asleep = minder_sleeps_until_ != core::long_ago;
    if (asleep && (must_hire() || wake_at < minder_sleeps_until_)) minder_wakes_.tell_one();
    return more > 0;
}

/// Outside of the lock: who wakes takes it first.
void work_thread::summon() noexcept {
    if (to_wake_.load(std::memory_order_relaxed) == 0) return;
    for (auto n = to_wake_.exchange(0, std::memory_order_relaxed); n > 0; --n)
        worker_wakes_.tell_one();
}

void work_thread::abandoned(core::slot_id slot, std::uint64_t call) {
    for (worker& w : workers_) {
        if (!w.stuck && w.running.slot == slot && w.running.call == call) give_up_on(w);
    }
}

void work_thread::give_up_on(worker& w) {
    w.stuck = true;
    ++stuck_;
    --active_;
}

void work_thread::mind() {
    name_this_thread(name_, "/timer");
    holding lock(home_.lock);
    while (!stopping_) {
        bury_ended(lock);
        refused_ = must_hire() && !hire();
        if (must_hire() && !refused_) continue;
        if (helpless(0)) {
            let_time_run(home_);
            home_.watchers.tell();  // whoever ends the pool does what no thread does
        }
        core::instant now = home_.now();
        core::instant wake_at = home_.mind_closely(now);
        if (wake_at <= now) {
            lock.unlock();
            home_.tick();
            lock.lock();
            continue;
        }
        // The calls wait for a thread to be had, and the clock is minded meanwhile.
        if (refused_) wake_at = std::min(wake_at, now + refused_pause);
        minder_sleeps_until_ = wake_at;
        if (wake_at == core::never) minder_wakes_.wait(lock);
        else minder_wakes_.wait_until(lock, wake_at);
        minder_sleeps_until_ = core::long_ago;
    }
    lock.unlock();
    home_.drop_ref();
}

bool work_thread::hire() {
    try {
        worker& w = workers_.emplace_back();
        try {
            w.thread = std::thread([this, &w] { work(w); });
        } catch (...) {
            workers_.pop_back();
            throw;
        }
        ++active_;
        ++starting_;
        home_.add_ref();
        return true;
    } catch (const std::exception&) {
        return false;  // no thread or no memory to be had now
    }
}

void work_thread::bury_ended(holding& lock) {
    for (auto w = workers_.begin(); w != workers_.end();) {
        if (!w->ended || !w->thread.joinable()) {
            ++w;
            continue;
        }
        std::thread ended = std::move(w->thread);
        w = workers_.erase(w);
        lock.unlock();
        ended.join();
        lock.lock();
        w = workers_.begin();
    }
}

void work_thread::work(worker& self) {
    name_this_thread(name_, "/work");
    holding lock(home_.lock);
    --starting_;
    for (;;) {
        if (!stopping_ && next_job(home_, self.running)) {
            const job& j = self.running;
            bool orphan = j.call == 0 && !j.tells && j.admits == nullptr;
            if (orphan) give_up_on(self);  // it may hang for ever
            lock.unlock();
            summon();  // next_job() has looked
            shell::run(home_, self.running);
            lock.lock();
            self.running = {};
            if (self.stuck) {
                self.stuck = false;
                --stuck_;
                ++active_;
            }
            continue;
        }
        if (stopping_) break;
        ++idle_;
        bool rested = !worker_wakes_.wait_for(lock, linger);
        --idle_;
        if (summoned_ > 0) --summoned_;  // this one, or somebody else who will find nothing to do
        if (rested && !home_.has_jobs()) break;
    }
    --active_;
    self.ended = true;
    if (minder_sleeps_until_ != core::long_ago) minder_wakes_.tell_one();
    lock.unlock();
    home_.drop_ref();
}

/// Threads that are gone can neither be joined nor detached: their handles are overwritten.
void work_thread::start_anew() {
    std::construct_at(&minder_);
    for (worker& w : workers_) std::construct_at(&w.thread);
    workers_.clear();
    idle_ = summoned_ = starting_ = active_ = stuck_ = 0;
    to_wake_.store(0, std::memory_order_relaxed);
    refused_ = false;
    minder_sleeps_until_ = core::long_ago;
    std::construct_at(&minder_wakes_);
    std::construct_at(&worker_wakes_);
    has_not_started();
}

void work_thread::stop(holding& lock) noexcept {
    stopping_ = true;
    minder_wakes_.tell_all();
    worker_wakes_.tell_all();
    auto end = [&](std::thread& thread, bool leave_alone) CENOTE_UNCHECKED_LOCKING {
        std::thread t = std::move(thread);
        lock.unlock();
        if (leave_alone || t.get_id() == std::this_thread::get_id()) t.detach();
        else t.join();
        lock.lock();
    };
    if (minder_.joinable()) end(minder_, false);
    for (worker& w : workers_)
        if (w.thread.joinable()) end(w.thread, w.stuck);
}

}  // namespace cenote::shell

// The pool's threads: workers for connector calls that block, and the timer thread.
#include "shell/work_thread.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <pthread.h>
#include <system_error>
#include <utility>

#include "shell/operations.hpp"

namespace cenote::shell {

namespace {

using namespace std::chrono_literals;

/// How long a worker stays without work.
constexpr auto linger = 5s;
/// How long to wait before starting a thread again after the system has refused one.
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
      for_observers_(settings.observers.empty() ? 0 : 1) {
    resized(settings.max);
}

/// One worker for each open that may be in flight, and some for everything else. The limit never
/// falls: after a resize to a smaller maximum, the surplus has to be closed, and idle workers end
/// anyway.
void work_thread::resized(std::size_t max) {
    limit_ = std::max(limit_, std::min(max, std::min(max, opening_max_) + 8) + for_observers_);
}

void work_thread::start_up() {
    pool_guard lock(home_.lock);
    if (started() || stopping_) return;
    timer_ = std::thread([this] { run_timer(); });
    set_started(true);
    home_.add_ref();
}

bool work_thread::needs_worker() const {
    home_.lock.is_held();
    return home_.jobs_waiting() > idle_ + starting_ && active_ < limit_ && !too_many_hang();
}

bool work_thread::is_stuck(std::size_t own) const {
    home_.lock.is_held();
    return home_.has_jobs() && active_ <= own && (too_many_hang() || refused_ || !started());
}

bool work_thread::schedule(core::instant wake_at) {
    home_.lock.is_held();
    std::size_t calls = std::min(home_.jobs_waiting(), idle_);
    std::size_t more = calls > woken_ ? calls - woken_ : 0;
    woken_ += more;
    to_wake_.fetch_add(more, std::memory_order_relaxed);
    bool asleep = timer_sleeps_until_ != core::long_ago;
    if (asleep && (needs_worker() || wake_at < timer_sleeps_until_)) timer_wakes_.notify_one();
    return more > 0;
}

/// Outside the lock: a woken worker locks it first.
void work_thread::wake() noexcept {
    if (to_wake_.load(std::memory_order_relaxed) == 0) return;
    for (auto n = to_wake_.exchange(0, std::memory_order_relaxed); n > 0; --n)
        worker_wakes_.notify_one();
}

void work_thread::abandoned(core::slot_id slot, std::uint64_t call) {
    for (worker& w : workers_)
        if (w.running.slot == slot && w.running.call == call) set_hanging(w, true);
}

void work_thread::set_hanging(worker& w, bool hangs) {
    if (std::exchange(w.hangs, hangs) == hangs) return;
    if (hangs) {
        ++hanging_;
        --active_;
    } else {
        --hanging_;
        ++active_;
    }
}

void work_thread::run_timer() {
    name_this_thread(name_, "/timer");
    pool_guard lock(home_.lock);
    while (!stopping_) {
        join_ended(lock);
        refused_ = needs_worker() && !start_worker();
        if (needs_worker() && !refused_) continue;
        if (is_stuck(0)) {
            start_call_timeouts(home_);
            home_.pool_waiters.notify();  // the thread that ends the pool makes the calls
        }
        core::instant now = home_.now();
        core::instant wake_at = home_.arm_thread_timer(now);
        if (wake_at <= now) {
            lock.unlock();
            home_.tick();
            lock.lock();
            continue;
        }
        // Calls wait for a thread, and the timer runs meanwhile.
        if (refused_) wake_at = std::min(wake_at, now + refused_pause);
        timer_sleeps_until_ = wake_at;
        timer_wakes_.wait_until(lock, wake_at);
        timer_sleeps_until_ = core::long_ago;
    }
    lock.unlock();
    home_.drop_ref();
}

bool work_thread::start_worker() {
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
        return false;  // no thread or no memory is available now
    }
}

void work_thread::join_ended(pool_guard& lock) {
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
    pool_guard lock(home_.lock);
    --starting_;
    for (;;) {
        if (!stopping_ && next_job(home_, self.running)) {
            set_hanging(self, self.running.is_orphans());  // it may never return
            lock.unlock();
            wake();  // next_job() has called schedule()
            shell::run(home_, self.running);
            lock.lock();
            self.running = {};
            set_hanging(self, false);
            continue;
        }
        if (stopping_) break;
        ++idle_;
        bool woken = worker_wakes_.wait_for(lock, linger);
        --idle_;
        if (woken_ > 0) --woken_;  // this worker, or another one that will find no job
        if (!woken && !home_.has_jobs()) break;
    }
    --active_;
    self.ended = true;
    if (timer_sleeps_until_ != core::long_ago) timer_wakes_.notify_one();
    lock.unlock();
    home_.drop_ref();
}

/// Threads that are gone can neither be joined nor detached: their handles are overwritten.
void work_thread::restart() {
    std::construct_at(&timer_);
    for (worker& w : workers_) std::construct_at(&w.thread);
    workers_.clear();
    idle_ = woken_ = starting_ = active_ = hanging_ = 0;
    to_wake_.store(0, std::memory_order_relaxed);
    refused_ = false;
    timer_sleeps_until_ = core::long_ago;
    std::construct_at(&timer_wakes_);
    std::construct_at(&worker_wakes_);
    set_started(false);
}

void work_thread::stop(pool_guard& lock) noexcept {
    stopping_ = true;
    timer_wakes_.notify_all();
    worker_wakes_.notify_all();
    auto end = [&](std::thread& thread, bool hangs) CENOTE_UNCHECKED_LOCKING {
        std::thread t = std::move(thread);
        lock.unlock();
        if (hangs || t.get_id() == std::this_thread::get_id()) t.detach();
        else t.join();
        lock.lock();
    };
    if (timer_.joinable()) end(timer_, false);
    for (worker& w : workers_)
        if (w.thread.joinable()) end(w.thread, w.hangs);
}

}  // namespace cenote::shell

// The turns of a pool on an executor, and the timer there.
#include "shell/work_asio.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <utility>

#include "cenote/detail/process.hpp"
#include "shell/asio_call.hpp"
#include "shell/asio_context.hpp"
#include "shell/operations.hpp"

namespace cenote::shell {

namespace asio = boost::asio;

using core::instant;
using core::never;

namespace {

/// A turn with more steps than this lets other handlers of its loop run first.
constexpr int steps_per_turn = 64;

}  // namespace

// What is posted to the executor.

/// One turn, or one run of the timer. Has a reference to the keeper until it was run or dropped.
class work_asio::posted_step {
public:
    using step = void (work_asio::*)() noexcept;

    posted_step(work_asio& place, step what) noexcept : place_(&place), what_(what) {
        place.home_.add_ref();
    }
    posted_step(posted_step&& other) noexcept
        : place_(std::exchange(other.place_, nullptr)),
          what_(other.what_),
          process_(other.process_) {}
    posted_step& operator=(posted_step&&) = delete;
    ~posted_step() {
        if (place_ == nullptr) return;
        if (posting_for != place_) place_->dropped();  // otherwise it was never posted
        place_->home_.drop_ref();
    }

    void operator()() { end(true); }
    void operator()(const boost::system::error_code& error) { end(!error); }

private:
    void end(bool run) {
        work_asio& place = *std::exchange(place_, nullptr);
        if (run && process_ == detail::this_process) (place.*what_)();
        place.home_.drop_ref();
    }

    work_asio* place_;
    step what_;
    detail::process_number process_ = detail::this_process;
};

// The workplace.

work_asio::work_asio(keeper& home, const asio::any_io_executor& where, const options& settings)
    : home_(home),
      close_timeout_(settings.close_timeout),
      dropped_error_(std::make_exception_ptr(boost::system::system_error(
          asio::error::operation_aborted, "the pool or its event loop has ended"))),
      where_(where),
      timer_(where),
      after_fork_(std::make_shared<std::function<void()>>([this] { cancel_foreign_calls(); })) {
    call_after_fork(where_, after_fork_);
}

bool work_asio::needs_this_thread() const { return where_ && runs_here(where_); }

void work_asio::call(const job& j) noexcept {
    std::shared_ptr<running_call> started;
    try {
        pool_guard lock(home_.lock);
        asio::any_io_executor where = where_;
        if (stopping_) std::rethrow_exception(dropped_error_);
        lock.unlock();
        started = std::make_shared<running_call>(*this, j, where);
        lock.lock();
        started->next = std::exchange(calls_, started.get());
    } catch (const std::exception&) {
        return finish(home_, j, false, std::current_exception(), nullptr);
    }
    home_.add_ref();
    std::exception_ptr error;
    bool begun = try_post(*this, [&] {
        try {
            started->start();
        } catch (const std::exception&) {
            error = std::current_exception();
            throw;
        }
    });
    if (!begun) started->fail(error);
}

void work_asio::abandoned(core::slot_id slot, std::uint64_t call) {
    for (running_call* c = calls_; c != nullptr; c = c->next)
        if (!c->abandoned && c->is(slot, call)) c->abandoned = any_abandoned_ = true;
}

bool work_asio::schedule(instant wake_at) {
    home_.lock.is_held();
    bool ended = wake_at == never && timer_at_ != never;  // the timer would keep the loop busy
    bool due = home_.has_jobs() || any_abandoned_ || wake_at < timer_at_ || ended;
    if (!due || !take_turn()) return false;
    ++posting_;
    return true;
}

bool work_asio::make_progress(instant until) noexcept {
    return home_.waits_move_clock() && home_.let_time_pass(until);
}

bool work_asio::take_turn() { return !stopping_ && !std::exchange(turn_taken_, true); }

/// Posts the turn that was taken. The end of the pool waits for this: afterwards the executor may
/// be gone.
void work_asio::wake() noexcept {
    bool posted =
        try_post(*this, [&] { asio::post(where_, posted_step(*this, &work_asio::turn)); });
    pool_guard lock(home_.lock);
    if (!posted) {  // the next request to the keeper tries again
        home_.disarm_timer();
        end_turn(lock);
    }
    if (--posting_ == 0 && stopping_) posted_.notify_all();
}

void work_asio::turn() noexcept {
    pool_guard lock(home_.lock);
    for (int steps = 0; !stopping_ && step(lock); ++steps) {
        if (steps < steps_per_turn) continue;
        ++posting_;
        lock.unlock();
        return wake();
    }
    end_turn(lock);
}

/// False: nothing is left to do.
bool work_asio::step(pool_guard& lock) noexcept {
    job j;
    instant wake_at = home_.arm_timer();
    if (next_job(home_, j)) {
        lock.unlock();
        shell::run(home_, j);
        lock.lock();
    } else if (any_abandoned_) {
        cancel_abandoned(lock);
    } else if (wake_at <= home_.now()) {
        lock.unlock();
        home_.tick();
        lock.lock();
    } else {
        return wake_at != timer_at_ && set_timer(lock, wake_at);
    }
    return true;
}

void work_asio::end_turn(pool_guard& lock) noexcept {
    if (!stopping_) {
        turn_taken_ = false;
        return;
    }
    cancel_abandoned(lock);
    release_executor();
}

/// False: there was no memory for it. The next request to the keeper tries again.
bool work_asio::set_timer(pool_guard& lock, instant wake_at) noexcept {
    timer_at_ = wake_at;
    if (home_.clock != nullptr) return true;  // the manual clock ticks
    lock.unlock();
    bool set = try_post(*this, [&] {
        timer_->expires_at(wake_at);  // cancels the wait before
        if (wake_at != never) timer_->async_wait(posted_step(*this, &work_asio::on_timer));
    });
    lock.lock();
    if (set) return true;
    timer_at_ = never;
    home_.disarm_timer();
    return false;
}

void work_asio::on_timer() noexcept {
    {
        pool_guard lock(home_.lock);
        timer_at_ = never;
        if (!take_turn()) return;  // the present turn sees that no timer is set
    }
    turn();
}

/// The context of the executor is being destroyed, with everything that was posted to it.
void work_asio::dropped() noexcept {
    pool_guard lock(home_.lock);
    stopping_ = true;
    release_executor();
}

/// Calls `cancel`, unlocked, for each call that `which` chooses and that was not canceled before.
template <class Which, class Cancel>
void work_asio::for_each_call(pool_guard& lock, Which which, Cancel cancel) noexcept {
    for (running_call* c = calls_; c != nullptr;) {
        if (!which(*c) || std::exchange(c->canceled, true)) {
            c = c->next;
            continue;
        }
        std::shared_ptr<running_call> kept = c->weak_from_this().lock();
        lock.unlock();
        cancel(*kept);
        kept.reset();
        lock.lock();
        c = calls_;  // the list may have changed
    }
}

void work_asio::cancel_abandoned(pool_guard& lock) noexcept {
    any_abandoned_ = false;
    for_each_call(
        lock, [](const running_call& c) { return c.abandoned; },
        [](running_call& c) { c.cancel(); });
}

/// In the child of a fork, when no thread runs the context: cancels the parent's calls before they
/// go on here.
void work_asio::cancel_foreign_calls() noexcept {
    pool_guard lock(home_.lock);
    for_each_call(
        lock, [](const running_call& c) { return c.is_foreign(); },
        [](running_call& c) { c.emit(); });
}

/// From now on the executor's context may be destroyed.
void work_asio::release_executor() noexcept {
    timer_.reset();
    where_ = {};
}

/// What the parent posted has no effect here; the timer is set anew.
void work_asio::restart() {
    any_abandoned_ = turn_taken_ = false;
    posting_ = 0;
    std::construct_at(&posted_);
    timer_at_ = never;
}

void work_asio::stop(pool_guard& lock) noexcept {
    stopping_ = true;
    for (running_call* c = calls_; c != nullptr; c = c->next) c->abandoned = true;
    posted_.wait(lock, [&] { return posting_ == 0; });
    if (!std::exchange(turn_taken_, true)) end_turn(lock);
}

}  // namespace cenote::shell

namespace cenote::detail {

gate* open_on(const asio::any_io_executor& where, std::unique_ptr<async_connector> connector,
              const options& settings) {
    if (settings.warm_up == warm_up::wait)
        throw invalid_option("warm_up", "wait",
                             "a pool on an executor must not block; use async_wait_ready");
    return shell::keeper::open(settings, std::move(connector), [&](shell::keeper& home) {
        return std::make_unique<shell::work_asio>(home, where, settings);
    });
}

}  // namespace cenote::detail

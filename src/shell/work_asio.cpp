// Connector calls as coroutines on an executor, and the clock as a timer there.
#include "shell/work_asio.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detail/scheduler.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/strand.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <utility>
#include <vector>

#include "cenote/detail/process.hpp"
#include "shell/around.hpp"

namespace cenote::shell {

namespace asio = boost::asio;

using core::instant;
using core::never;

namespace {

/// A turn that takes longer than this gives way to the others on its loop.
constexpr int steps_per_turn = 64;

/// For whom this thread is putting something onto an executor.
constinit thread_local const work_asio* putting_here = nullptr;

/// Puts something there. False: there was no memory for it.
template <class Put>
bool put_there(const work_asio& place, Put put) noexcept {
    const work_asio* outer = std::exchange(putting_here, &place);
    bool done = true;
    try {
        put();
    } catch (const std::exception&) {
        done = false;
    }
    putting_here = outer;
    return done;
}

}  // namespace

/// Hears of a fork when the user tells the context (execution_context::notify_fork).
class fork_service : public asio::execution_context::service {
public:
    using key_type = fork_service;
    static inline asio::execution_context::id id;

    explicit fork_service(asio::execution_context& context) : service(context) {}

    void add(const std::shared_ptr<work_asio*>& place) {
        std::lock_guard lock(mutex_);
        std::erase_if(places_, [](const auto& each) { return each.expired(); });
        places_.push_back(place);
    }

private:
    void shutdown() noexcept override {}
    void notify_fork(asio::execution_context::fork_event event) override {
        if (event != asio::execution_context::fork_child) return;
        for (const auto& each : places_)
            if (auto place = each.lock()) (*place)->forsake_calls();
    }

    std::mutex mutex_;
    std::vector<std::weak_ptr<work_asio*>> places_;
};

// What lies on the executor.

/// One turn, or one run of the timer. Keeps the keeper until it has been run or dropped.
class work_asio::errand {
public:
    using step = void (work_asio::*)() noexcept;

    errand(work_asio& place, step what) noexcept : place_(&place), what_(what) {
        place.home_.add_ref();
    }
    errand(errand&& other) noexcept
        : place_(std::exchange(other.place_, nullptr)),
          what_(other.what_),
          process_(other.process_) {}
    errand& operator=(errand&&) = delete;
    ~errand() {
        if (place_ == nullptr) return;
        if (putting_here != place_) place_->dropped();  // otherwise it has not got there at all
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

/// A connector's call under way. Shared by its coroutine and whoever cancels it; ends once.
class work_asio::running_call : public std::enable_shared_from_this<running_call> {
public:
    running_call(work_asio& place, const job& j, const asio::any_io_executor& where)
        : place_(place), job_(j), connector_(j.by), strand_(asio::make_strand(where)) {}

    void start() {
        if (job_.call == 0) expire_after(place_.close_timeout_);
        asio::co_spawn(strand_, perform(shared_from_this()),
                       asio::bind_cancellation_slot(
                           stop_.slot(), asio::bind_executor(strand_, ending(shared_from_this()))));
    }

    /// From any thread. Without memory for it the call goes on until it ends by itself: nobody
    /// waits for it.
    void cancel() noexcept {
        put_there(place_, [&] { asio::post(strand_, [me = shared_from_this()] { me->emit(); }); });
    }

    void end() noexcept;
    void fail(std::exception_ptr why) noexcept {
        error_ = std::move(why);
        end();
    }

    bool is(core::slot_id slot, std::uint64_t call) const {
        return job_.slot == slot && job_.call == call && !is_foreign();
    }
    bool is_foreign() const { return job_.process != detail::this_process; }
    void emit() {
        if (!ended_) stop_.emit(asio::cancellation_type::terminal);
    }

    // In the list of those under way, under the keeper's lock.
    bool abandoned = false;
    bool cancelled = false;
    running_call* next = nullptr;

private:
    /// Runs when the coroutine has ended. If it is dropped, the coroutine was, too.
    class ending {
    public:
        explicit ending(std::shared_ptr<running_call> of) noexcept : of_(std::move(of)) {}
        ending(ending&&) noexcept = default;
        ending& operator=(ending&&) = delete;
        ~ending() {
            if (of_ == nullptr) return;
            if (putting_here != &of_->place_) of_->place_.dropped();
            of_->fail(of_->place_.dropped_error_);
        }
        void operator()(const std::exception_ptr&) { std::exchange(of_, nullptr)->end(); }

    private:
        std::shared_ptr<running_call> of_;
    };

    static asio::awaitable<void> perform(std::shared_ptr<running_call> me);

    /// The machine knows nothing of an orphan, so it minds its time itself.
    void expire_after(core::duration time) {
        expiry_.emplace(strand_, core::after(std::chrono::steady_clock::now(), time));
        expiry_->async_wait([me = shared_from_this()](const boost::system::error_code& early) {
            if (!early) me->emit();
        });
    }

    work_asio& place_;
    const job job_;
    const detail::connector_ref connector_;  // its verb's frame may end after the answer
    asio::strand<asio::any_io_executor> strand_;
    std::optional<asio::steady_timer> expiry_;
    asio::cancellation_signal stop_;
    bool ended_ = false;
    bool well_ = true;
    std::exception_ptr error_;
    std::unique_ptr<detail::resource> opened_;
};

asio::awaitable<void> work_asio::running_call::perform(std::shared_ptr<running_call> me) {
    auto& connector = static_cast<detail::async_connector&>(*me->connector_);
    try {
        switch (me->job_.which) {
            case core::verb::open: me->opened_ = co_await connector.open(); break;
            case core::verb::probe: me->well_ = co_await connector.probe(me->job_.on); break;
            case core::verb::reset: me->well_ = co_await connector.reset(me->job_.on); break;
            case core::verb::close: me->well_ = co_await connector.close(me->job_.on); break;
        }
    } catch (...) {
        me->error_ = std::current_exception();
    }
}

void work_asio::running_call::end() noexcept {
    if (std::exchange(ended_, true)) return;
    expiry_.reset();
    {
        holding lock(place_.home_.lock);
        for (running_call** at = &place_.calls_; *at != nullptr; at = &(*at)->next) {
            if (*at != this) continue;
            *at = next;
            break;
        }
    }
    keeper& home = place_.home_;
    finish(home, job_, well_ && error_ == nullptr, error_, std::move(opened_));
    home.drop_ref();
}

// The workplace.

work_asio::work_asio(keeper& home, const asio::any_io_executor& where, const options& settings)
    : home_(home),
      close_timeout_(settings.close_timeout),
      dropped_error_(std::make_exception_ptr(boost::system::system_error(
          asio::error::operation_aborted, "the pool or its event loop has ended"))),
      where_(where),
      timer_(where),
      told_of_forks_(std::make_shared<work_asio*>(this)) {
    auto& context = asio::query(where_, asio::execution::context);
    asio::use_service<fork_service>(context).add(told_of_forks_);
}

work_asio::~work_asio() = default;

void work_asio::start_up() { has_started(); }

void work_asio::call(const job& j) noexcept {
    std::shared_ptr<running_call> started;
    try {
        holding lock(home_.lock);
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
    bool begun = put_there(*this, [&] {
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
    for (running_call* c = calls_; c != nullptr; c = c->next) {
        if (c->abandoned || !c->is(slot, call)) continue;
        c->abandoned = somebody_abandoned_ = true;
    }
}

bool work_asio::look(instant wake_at) {
    home_.lock.is_held();
    bool ended = wake_at == never && timer_at_ != never;  // else the timer would keep the loop busy
    bool due = home_.has_jobs() || somebody_abandoned_ || wake_at < timer_at_ || ended;
    if (!due || !take_turn()) return false;
    ++summoning_;
    return true;
}

bool work_asio::do_something(instant until) noexcept {
    return home_.waits_move_clock() && home_.let_time_pass(until);
}

bool work_asio::take_turn() { return !stopping_ && !std::exchange(turn_taken_, true); }

/// The turn has been taken. The end of the pool waits for this: after it the executor may be gone.
void work_asio::summon() noexcept {
    bool done = put_there(*this, [&] { asio::post(where_, errand(*this, &work_asio::turn)); });
    holding lock(home_.lock);
    if (!done) {  // whoever enters the keeper next looks, and tries again
        home_.mind_nothing();
        end_turn(lock);
    }
    if (--summoning_ == 0 && stopping_) summoned_.tell_all();
}

void work_asio::turn() noexcept {
    holding lock(home_.lock);
    for (int steps = 0; !stopping_ && step(lock); ++steps) {
        if (steps < steps_per_turn) continue;
        ++summoning_;
        lock.unlock();
        return summon();  // the others on the loop first
    }
    end_turn(lock);
}

/// One thing after the other. False: there is nothing left to do.
bool work_asio::step(holding& lock) noexcept {
    job j;
    instant wake_at = home_.mind_until();
    if (next_job(home_, j)) {
        lock.unlock();
        shell::run(home_, j);
        lock.lock();
    } else if (somebody_abandoned_) {
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

void work_asio::end_turn(holding& lock) noexcept {
    if (!stopping_) {
        turn_taken_ = false;
        return;
    }
    cancel_abandoned(lock);
    let_go();
}

/// False: there was no memory for it. Whoever enters the keeper next looks, and it is tried again.
bool work_asio::set_timer(holding& lock, instant wake_at) noexcept {
    timer_at_ = wake_at;
    if ((home_.clock != nullptr)) return true;  // it comes by itself
    lock.unlock();
    bool set = put_there(*this, [&] {
        timer_->expires_at(wake_at);  // and cancels the wait before
        if (wake_at != never) timer_->async_wait(errand(*this, &work_asio::on_timer));
    });
    lock.lock();
    if (set) return true;
    timer_at_ = never;
    home_.mind_nothing();
    return false;
}

void work_asio::on_timer() noexcept {
    {
        holding lock(home_.lock);
        timer_at_ = never;
        if (!take_turn()) return;  // whoever has the turn will see that no timer is set
    }
    turn();
}

/// The context of the executor goes away, and what was on it with it.
void work_asio::dropped() noexcept {
    holding lock(home_.lock);
    stopping_ = true;
    let_go();
}

void work_asio::cancel_abandoned(holding& lock) noexcept {
    somebody_abandoned_ = false;
    for (running_call* c = calls_; c != nullptr;) {
        if (!c->abandoned || std::exchange(c->cancelled, true)) {
            c = c->next;
            continue;
        }
        std::shared_ptr<running_call> kept = c->weak_from_this().lock();
        lock.unlock();
        kept->cancel();
        kept.reset();
        lock.lock();
        c = calls_;  // others may have come and gone
    }
}

/// Nothing is left here that belongs to the executor's context, which may go away from now on.
void work_asio::let_go() noexcept {
    timer_.reset();
    where_ = {};
}

/// Whichever executor it is, and whatever is wrapped around it, its context has the threads.
bool work_asio::needs_this_thread() const {
    if (!where_) return false;
    auto& context = asio::query(where_, asio::execution::context);
    return asio::has_service<asio::detail::scheduler>(context) &&
           asio::use_service<asio::detail::scheduler>(context).can_dispatch();
}

/// What lies on the executor from before goes by without effect; the timer is set anew.
void work_asio::start_anew() {
    somebody_abandoned_ = turn_taken_ = false;
    summoning_ = 0;
    std::construct_at(&summoned_);
    timer_at_ = never;
}

void work_asio::forsake_calls() noexcept {
    holding lock(home_.lock);
    for (running_call* c = calls_; c != nullptr;) {
        if (!c->is_foreign() || std::exchange(c->cancelled, true)) {
            c = c->next;
            continue;
        }
        std::shared_ptr<running_call> kept = c->weak_from_this().lock();
        lock.unlock();
        kept->emit();
        kept.reset();
        lock.lock();
        c = calls_;
    }
}

void work_asio::stop(holding& lock) noexcept {
    stopping_ = true;
    for (running_call* c = calls_; c != nullptr; c = c->next) c->abandoned = true;
    summoned_.wait(lock, [&] { return summoning_ == 0; });
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

// The keeper: how leases come and go.
#include "shell/keeper.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "shell/enter.hpp"
#include "shell/wait_thread.hpp"

namespace cenote::shell {

using core::instant;
using core::never;
using detail::resource;
using std::chrono::steady_clock;

namespace {

/// A sleeping thread looks at the clock itself if nobody has woken it so long after its deadline.
constexpr auto backstop = std::chrono::milliseconds{20};

bool refuses_on_loop(const options& settings) {
#ifdef NDEBUG
    constexpr bool unless_told = false;
#else
    constexpr bool unless_told = true;
#endif
    return settings.refuse_on_loop.value_or(unless_told);
}

/// Below this `probe_after_idle` is too fine for the sweeps of the fast lane.
constexpr auto fine_idle_time = std::chrono::seconds{1};

/// Sweeps of the shelf find what was idle for two of these.
std::chrono::nanoseconds shelf_interval(const options& settings, bool probes) {
    auto interval = settings.sweep_interval;
    if (!probes) return interval;
    return std::min({interval, settings.probe_after_idle / 2, settings.heartbeat / 2,
                     std::chrono::nanoseconds{core::machine::look_after}});
}

/// Who holds a lease from the fast lane is found so often, if not by a sweep: often enough for
/// `leak_after`, and not more often than a report can be due.
std::chrono::nanoseconds holder_interval(const options& settings) {
    return std::max(settings.leak_after / 2, core::leaks::shortest);
}

/// What observers hear of a call that was given up.
std::exception_ptr timed_out(const std::string& verb) {
    return std::make_exception_ptr(
        std::system_error(std::make_error_code(std::errc::timed_out),
                          "the " + verb + " took longer than " + verb + "_timeout"));
}

}  // namespace

keeper* keeper::open(const options& settings, std::unique_ptr<detail::any_connector> connector,
                     const workplace_maker& make_workplace) {
    validate(settings, connector->abilities().probe);
    auto* k = new keeper(settings, std::move(connector), make_workplace);
    try {
        if (k->clock_ != nullptr) k->clock_->add(*k);
        k->begin();
        if (settings.warm_up == warm_up::wait) k->wait_warm();
    } catch (...) {
        k->end();
        throw;
    }
    return k;
}

keeper::keeper(const options& settings, std::unique_ptr<detail::any_connector> connector,
               const workplace_maker& make_workplace)
    : gate(settings, std::move(connector), detail::sweeper_asleep),
      settings_(settings),
      clock_(settings_.clock.get()),
      can_(connector_->abilities()),
      can_probe_(abilities().probe),
      shelf_interval_(shelf_interval(settings, can_probe_)),
      holder_interval_(std::min(shelf_interval_, holder_interval(settings))),
      announcer_(settings.observers),
      umpire_(settings.breaker),
      traces_(std::make_unique<trace_array>(settings.max)),
      max_(settings.max),
      machine_(settings, abilities(), announcer_.wants_any(), pick_seed(settings), now()),
      places_(settings.max),
      suspension_(core::machine::frozen_for, now(), time_since_boot()),
      leaks_(settings.max, settings.leak_after),
      open_timed_out_(timed_out("open")),
      close_timed_out_(timed_out("close")),
      work_(make_workplace(*this)) {
    // The fast lane has no clock: it sees that a resource was idle for long, but not for how long.
    bool probes_soon =
        can_probe_ && (settings.probe_on_release || settings.probe_after_idle < fine_idle_time);
    bool exact = clock_ != nullptr;
    if (probes_soon || exact || announcer_.wants_leases() || settings.order == order::fifo)
        shelf_.raise(detail::lane_off);
    machine_.make_room(out_);
}

core::abilities keeper::abilities() const {
    detail::connector_abilities can = connector_->abilities();
    // On an executor a timer keeps the loop running. Only options may ask for one.
    bool has_timer = can.blocks && clock_ == nullptr;
    return {.probe = can.probe, .reset = can.reset, .sees_freezes = has_timer};
}

void keeper::begin() {
    bool opens = settings_.warm_up != warm_up::none && settings_.min_size + settings_.min_idle > 0;
    if (opens || announcer_.wants_any()) work_->start();
    enter([&](instant now) { machine_.start(now, out_); });
}

// Acquire.

resource* keeper::acquire(const detail::wish& w, errc& why) {
    thread_waiter me;
    me.site = w.site;
    me.wants = w.how;
    me.holder = detail::this_thread();
    me.deadline = w.deadline;
    me.cannot_wait = cannot_wait_here();
    resource* rejected = nullptr;
    for (;;) {
        get_ready();
        const detail::process_number asked_in = detail::this_process;
        bool waits = ask_for(me, rejected);
        if (waits || me.error == errc::deadlock) may_block(w.site);
        if (detail::this_process != asked_in) continue;  // forked by an observer
        if (waits) wait(me, w);
        if (detail::this_process != asked_in && me.got == nullptr) continue;
        if (me.got == nullptr) break;
        if (admits(me.got)) return me.got;
        rejected = me.got;  // goes, and its borrower back to its place in line
    }
    why = me.error;
    refused(why);
    return nullptr;
}

bool keeper::ask_for(thread_waiter& me, resource* rejected) {
    me.rearm();
    join_anew(me, rejected);
    bool in_line = false;
    errands todo;
    try {
        std::lock_guard lock(mutex_);
        if (is_behind()) [[unlikely]]
            start_anew(todo);
        instant now = this->now();
        if (rejected == nullptr && queue_up(now, me)) return true;
        decide(
            now,
            [&](instant at) {
                // The only step that can fail, before anything has changed.
                machine_.make_room(out_);
                if (rejected != nullptr)
                    give_to_machine(at, rejected, core::condition::unfit, std::nullopt);
                in_line = ask_for(at, me);
            },
            todo);
    } catch (...) {
        if (rejected != nullptr) {
            rejected->state = detail::condition::unfit;
            release(rejected);
        }
        throw;
    }
    if (todo.any()) carry_out(todo);
    return in_line;
}

bool keeper::ask_for(instant now, detail::waiter& who) {
    who.got = nullptr;
    bool again = who.ticket != 0;
    if (!again) {
        who.ticket = machine_.draw_ticket();
        who.arrived = now;
    }
    if (might_lend_suspects()) notice_suspension(now);
    if (resource* r = take_from_shelf(now, borrower_of(who)); r != nullptr) {
        who.got = r;
        return false;
    }
    std::uint64_t holder = note_who_holds(who.holder, 1);
    core::answer a = machine_.acquire(now,
                                      {.deadline = who.deadline,
                                       .cookie = std::bit_cast<std::uint64_t>(&who),
                                       .bypassable = true,
                                       .ticket = who.ticket,
                                       .arrived = who.arrived,
                                       .again = again,
                                       .cannot_wait = who.cannot_wait,
                                       .queues = who.wants.queues,
                                       .rank = who.wants.rank,
                                       .holder = holder},
                                      out_);
    who.place = std::bit_cast<std::uint64_t>(a.waiter);
    who.error = a.error;
    if (a.nested) note_nested(who.site);
    if (a.what == core::answer::kind::granted) {
        who.got = places_[a.slot].held;
        prepare(now, who.got, borrower_of(who));
    }
    return a.what == core::answer::kind::waiting;
}

/// A thread that holds a lease waits for another one.
void keeper::note_nested(std::source_location site) {
    if (!announcer_.wants(event_kind::nested_acquire)) return;
    announcer_.note({.kind = event_kind::nested_acquire, .pool = name_, .site = site});
}

/// A thread that will have to wait may hold a lease already, or be the last one of a deadlock.
/// Leases from the shelf have passed the machine by, so it is told who has what. Whoever has
/// nothing can be part of no deadlock: that is the usual case, and gives 0.
std::uint64_t keeper::note_who_holds(std::uint64_t comes, std::size_t wanted) {
    bool waits = machine_.anyone_waits() || machine_.count(core::slot_state::idle) < wanted;
    if (comes == 0 || !waits) return 0;
    auto last_taken_by = [&](core::slot_id id) {
        return (*traces_)[id].holder.load(std::memory_order_relaxed);
    };
    core::slot_id first = 0;
    while (first < machine_.places() && (last_taken_by(first) != comes || !is_out(first))) ++first;
    if (first == machine_.places()) return 0;
    for (core::slot_id id = 0; id < machine_.places(); ++id)
        machine_.held_by(id, is_out(id) ? last_taken_by(id) : 0);
    return comes;
}

void keeper::wait(thread_waiter& me, const detail::wish& w) {
    std::stop_callback on_stop(w.stop, [&] {
        enter([&](instant now) {
            machine_.cancel(now, std::bit_cast<core::waiter_id>(me.place), out_);
        });
    });
    // Under a manual clock no time passes while a thread sleeps.
    instant until = clock_ == nullptr ? core::after(me.deadline, backstop) : never;
    const detail::process_number here = detail::this_process;
    for (;;) {
        if (clock_ != nullptr && !me.is_done() && work_->do_something(me.deadline)) {
            if (detail::this_process != here) return;  // forked by the connector
            continue;
        }
        switch (me.sleep(until)) {
            case thread_waiter::woken::done: return;
            case thread_waiter::woken::late:
                tick();
                until = never;
                break;
        }
    }
}

resource* keeper::try_acquire(std::source_location site) {
    borrower who{.site = site, .how = {}, .holder = detail::this_thread()};
    for (;;) {
        get_ready();
        resource* got = nullptr;
        enter([&](instant now) {
            machine_.make_room(out_);
            if (might_lend_suspects()) notice_suspension(now);
            got = take_from_shelf(now, who);
            if (got != nullptr) return;
            if (auto slot = machine_.try_acquire(now, out_)) {
                got = places_[*slot].held;
                prepare(now, got, who);
            }
        });
        if (got == nullptr || admits(got)) return got;
        // Unfit: another one may be ready. Each turn takes one out of the pool.
        got->state = detail::condition::unfit;
        release(got);
    }
}

bool keeper::admits(resource* r) noexcept {
    if (!looks_before_acquire_ || is_foreign(r)) return !is_foreign(r);
    try {
        return r->made_by->before_acquire(*r) && !is_foreign(r);
    } catch (...) {
        return false;
    }
}

void keeper::refused(errc why) noexcept {
    if (!announcer_.wants(event_kind::exhausted)) return;
    stats now = read();
    announcer_.tell_now({.kind = event_kind::exhausted, .pool = name_, .error = why, .now = &now});
}

// Release.

void keeper::release(resource* r, std::exception_ptr cause) noexcept {
    bool unused = r->state == detail::condition::unused;
    if (looks_before_release_) {
        std::exception_ptr thrown = look_before_release(r);
        if (cause == nullptr) cause = std::move(thrown);
    }
    if (is_foreign(r)) return forsake(r);
    if (looks_before_release_ && lay_back(r)) return;  // others have tried that already
    auto how = static_cast<core::condition>(std::exchange(r->state, detail::condition::clean));
    if (unused && how == core::condition::dirty) how = core::condition::dirty_unused;
    detail::waiter* next = nullptr;
    errands todo;
    {
        std::lock_guard lock(mutex_);
        if (is_behind()) [[unlikely]]
            start_anew(todo);
        instant now = this->now();
        if (how == core::condition::clean) next = pass_on(now, r, todo);
        if (next == nullptr)
            decide(now, [&](instant at) noexcept { end_lease(at, r, how, cause); }, todo);
    }
    if (next != nullptr) {
        next->process.store(detail::no_process, std::memory_order_relaxed);
        next->notify();
    }
    if (todo.any()) carry_out(todo);
}

void keeper::end_lease(instant now, resource* r, core::condition how,
                       const std::exception_ptr& cause) {
    std::optional<core::duration> held;
    if (auto since = r->seen->leased_at.load(std::memory_order_relaxed); since != 0)
        held = now.time_since_epoch() - core::duration{since};
    if (cause != nullptr) {
        cause_ = cause;
        cause_of_ = machine_.look(r->slot).resource;
    }
    // The machine must hear of the end of a trial.
    bool plain = how == core::condition::clean && !machine_.look(r->slot).trial;
    if (plain && keep_on_shelf(now, r)) {
        if (held) machine_.note_hold(*held);
    } else {
        give_to_machine(now, r, how, held);
    }
}

/// Only at what its holder thinks can be kept. Returns what it throws.
std::exception_ptr keeper::look_before_release(resource* r) noexcept {
    bool returns = r->state == detail::condition::clean || r->state == detail::condition::dirty ||
                   r->state == detail::condition::unused;
    if (!returns || is_foreign(r)) return nullptr;
    verdict said = verdict::discard;
    std::exception_ptr thrown;
    try {
        said = r->made_by->before_release(*r);
    } catch (...) {
        thrown = std::current_exception();
    }
    if (is_foreign(r)) return thrown;  // forked by the connector
    switch (said) {
        case verdict::keep: return nullptr;  // and what is dirty stays so
        case verdict::reset: r->state = detail::condition::dirty; return nullptr;
        case verdict::suspect:
            suspect(r);
            r->state = detail::condition::broken;
            return nullptr;
        case verdict::discard:
        case verdict::final: break;
    }
    r->state = detail::condition::rejected;
    return thrown;
}

void keeper::hand_in(resource* r) noexcept {
    if (is_foreign(r)) return forsake(r);
    enter([&](instant now) noexcept {
        if (resource* over = lay_on_shelf(now, r); over != nullptr) bring_back(now, over);
    });
}

resource* keeper::taken(resource* r) noexcept {
    if (r->seen->hits.load(std::memory_order_relaxed) % sample == 0)
        r->seen->leased_at.store(now().time_since_epoch().count(), std::memory_order_relaxed);
    if (admits(r)) return r;
    r->state = detail::condition::unfit;
    release(r);
    return nullptr;
}

std::unique_ptr<resource> keeper::detach(resource* r) noexcept {
    if (is_foreign(r)) return detach_foreign(r);
    enter([&](instant now) noexcept {
        forget_recalled(r);
        places_[r->slot].held = nullptr;
        machine_.detach(now, r->slot, out_);
    });
    return std::unique_ptr<resource>(r);
}

// The whole pool.

void keeper::retire_all() {
    catch_up();
    enter([&](instant now) {
        machine_.make_room(out_);
        recall(now);
        machine_.retire_all(now, out_);
    });
}

options keeper::settings_with(std::size_t max) const {
    options o = settings_;
    o.max = max;
    return o;
}

options keeper::settings() const {
    options o = settings_with(max());
    std::lock_guard lock(mutex_);
    o.breaker = umpire_.strategy();
    return o;
}

void keeper::resize(std::size_t max) {
    validate(settings_with(max));
    catch_up();
    enter([&](instant now) {
        // The machine last: what it has places for, all the others have. If memory runs out before,
        // they have some that nobody knows of yet.
        leaks_.grow(max);
        traces_->grow(max);
        places_.grow(max);
        machine_.make_room(out_);
        machine_.make_places(max, out_);
        max_.store(max, std::memory_order_relaxed);
        work_->resized(max);
        // First: what lies on the shelf is idle, and its like are closed a few at a time.
        if (max < machine_.total()) collect_shelf(now);
        machine_.resize(now, max, out_);
        // Afterwards: whoever is served in this very step counts among those who hold leases now.
        if (machine_.total() > max) recall(now);
    });
}

void keeper::pause() {
    enter([&](instant now) {
        machine_.make_room(out_);
        shelf_.raise(detail::pool_paused);
        collect_shelf(now);
        machine_.pause(now, out_);
    });
}

void keeper::resume() {
    enter([&](instant now) {
        machine_.make_room(out_);
        shelf_.lower(detail::pool_paused);
        machine_.resume(now, out_);
    });
}

/// The fast lane needs sweeps. Without maintenance it is shut.
void keeper::suspend_maintenance() {
    enter([&](instant now) {
        machine_.make_room(out_);
        shelf_.raise(detail::no_maintenance);
        collect_shelf(now);
        shelf_sweep_at_ = core::never;
        shelf_.raise(detail::sweeper_asleep);
        machine_.suspend_maintenance(now, out_);
    });
}

void keeper::resume_maintenance() {
    enter([&](instant now) {
        machine_.make_room(out_);
        shelf_.lower(detail::no_maintenance);
        machine_.resume_maintenance(now, out_);
    });
}

void keeper::close() noexcept {
    if (!try_to_catch_up()) return close_unborn();
    enter([&](instant now) noexcept {
        shelf_.raise(detail::pool_closed);
        collect_shelf(now);
        shelf_sweep_at_ = never;  // nothing is laid there any more
        note_holders(now);
        machine_.close(now, out_);
    });
}

template <class Until>
bool keeper::watch(instant deadline, Until until) {
    std::unique_lock lock(mutex_);
    ++watchers_;
    bool reached = until();
    while (!reached && now() < deadline) {
        let_something_happen(lock, deadline);
        reached = until();
    }
    --watchers_;
    return reached;
}

/// Waits for a change, at most until `limit`; may return before.
void keeper::let_something_happen(std::unique_lock<std::mutex>& lock, instant limit) noexcept {
    if (clock_ != nullptr) {
        std::uint64_t before = changes_;
        lock.unlock();
        bool done = work_->do_something(limit);
        lock.lock();
        if (!done && changes_ == before) changed_.wait(lock);
    } else if (limit == never) {
        changed_.wait(lock);
    } else {
        changed_.wait_until(lock, limit);
    }
}

/// Whether waiting on this thread is refused, because the pool needs it.
bool keeper::cannot_wait_here() const {
    return refuses_on_loop(settings_) && work_->needs_this_thread();
}

/// False: the calling thread is one that the pool needs, and must not be blocked. If it is such a
/// one, this is told in any case.
bool keeper::may_block(std::source_location site) noexcept {
    if (!work_->needs_this_thread()) return true;
    announcer_.tell_now({.kind = event_kind::loop_blocked, .pool = name_, .site = site});
    try_to_catch_up();  // it may have forked
    return !refuses_on_loop(settings_);
}

std::size_t keeper::close(std::chrono::nanoseconds timeout, std::source_location site) noexcept {
    close();
    auto drained = [&] { return machine_.drained(); };
    if (!watch(now(), drained) && may_block(site)) watch(deadline_after(timeout), drained);
    std::lock_guard lock(mutex_);
    return machine_.count(core::slot_state::leased);
}

bool keeper::wait_ready(std::chrono::nanoseconds timeout, std::source_location site) {
    get_ready();
    enter([&](instant now) {
        machine_.make_room(out_);
        machine_.warm(now, out_);
    });
    bool ready = false;
    auto known = [&] {
        ready = machine_.ready() && !machine_.closed();
        return ready || machine_.closed();
    };
    if (!watch(now(), known) && may_block(site)) watch(deadline_after(timeout), known);
    return ready;
}

void keeper::wait_warm() {
    watch(never, [&] { return machine_.ready() || first_open_error_ != nullptr; });
    std::unique_lock lock(mutex_);
    std::exception_ptr error = first_open_error_;
    lock.unlock();
    if (error != nullptr) std::rethrow_exception(error);
}

void keeper::end() noexcept {
    close();
    if (is_behind()) {
        if (clock_ != nullptr) clock_->remove(*this);
        return let_go_of_strategy();
    }
    std::unique_lock lock(mutex_);
    ++watchers_;
    // Connector calls may use what the caller is about to destroy, so they are waited for; each of
    // them at most until its own deadline. The clock is minded here, too: the minder may be the
    // very thread that is doing this, in an observer.
    std::size_t own = work_->calls_here();
    auto busy = [&] { return announcer_.busy() || umpire_.busy(); };
    while ((calls_in_flight() > own || busy()) && !work_->helpless(own)) {
        instant wake = wake_at();
        let_something_happen(lock, wake);
        if (wake > now()) continue;
        lock.unlock();
        tick();
        lock.lock();
    }
    --watchers_;
    work_->stop(lock);
    lock.unlock();
    if (clock_ != nullptr) clock_->remove(*this);
    tick();  // and does what no thread was left for
    // The keeper may be kept by somebody who has not yet asked why they got nothing: the connector
    // is not. It ends here, or with the last call and the last resource of its own.
    detail::connector_ref connector;
    lock.lock();
    connector.swap(connector_);
    lock.unlock();
    let_go_of_strategy();
    drop_ref();
}

void keeper::tick() noexcept {
    enter([&](instant now) noexcept {
        // A shelf's sweep that comes so late says the same as a timer of the machine's.
        if (core::after(shelf_sweep_at_, core::machine::frozen_for) <= now)
            machine_.suspect_all(now, out_);
        notice_suspension(now);
        machine_.tick(now, out_);
        if (now >= shelf_sweep_at_) sweep_shelf(now);
        else if (now >= leaks_at()) note_holders(now);
    });
}

void keeper::drop_ref() noexcept {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    detail::wait_for_marks(this);
    delete this;
}

}  // namespace cenote::shell

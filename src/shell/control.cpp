// Commands to the whole pool: other sizes, other connectors, pauses, suspicion.
#include <stdexcept>
#include <string>
#include <utility>

#include "shell/operations.hpp"

namespace cenote::shell {

namespace {

/// A new connector must be able to do what the pool relies on, and nothing more: the pool would not
/// use it.
void must_match(const detail::connector_abilities& present, const detail::connector_abilities& next,
                const std::string& pool) {
    auto refuse = [&](const std::string& why) {
        throw std::invalid_argument("cenote: the new connector of \"" + pool + "\" " + why);
    };
    if (next.blocks != present.blocks)
        refuse(next.blocks ? "blocks; a pool on an executor needs an asynchronous one"
                           : "is asynchronous; a pool without an executor needs one that blocks");
    auto same = [&](bool had, bool has, const std::string& verb) {
        if (had != has)
            refuse((has ? "has " : "has no ") + verb +
                   ", unlike the present one; of probe, reset, " +
                   "before_acquire and before_release it must have the same");
    };
    same(present.probe, next.probe, "probe");
    same(present.reset, next.reset, "reset");
    same(present.before_acquire, next.before_acquire, "before_acquire");
    same(present.before_release, next.before_release, "before_release");
    if (next.before_acquire_is_quick != present.before_acquire_is_quick)
        refuse(next.before_acquire_is_quick
                   ? "has a before_acquire that is noexcept, unlike the present one"
                   : "has a before_acquire that is not noexcept, unlike the present one");
}

void retire_all(keeper& k, core::instant now) CENOTE_REQUIRES(k.lock) {
    k.lane.recall(now);
    k.machine.retire_all(now, k.out);
}

/// Without a probe nothing could clear the suspicion, so everything is retired.
void suspect_all(keeper& k, core::instant now) CENOTE_REQUIRES(k.lock) {
    if (k.can.probe) k.machine.suspect_all(now, k.out);  // lane.follow_line() recalls
    else retire_all(k, now);
}

/// Shuts or opens the fast lane, and tells the machine.
template <class ChangeLane>
void command(detail::gate* g, void (core::machine::*what)(core::instant, core::actions&),
             ChangeLane change_lane) {
    keeper& k = keeper_of(g);
    k.enter_with_room([&](core::instant now) CENOTE_REQUIRES(k.lock) {
        change_lane(k.lane, now);
        (k.machine.*what)(now, k.out);
    });
}

}  // namespace

}  // namespace cenote::shell

namespace cenote::detail {

using core::instant;
using shell::keeper;
using shell::keeper_of;
using shell::lane;

void gate::retire_all() {
    keeper& k = keeper_of(this);
    k.ensure_restarted();
    k.enter_with_room([&](instant now) CENOTE_REQUIRES(k.lock) { shell::retire_all(k, now); });
}

void gate::suspect_all() noexcept {
    keeper& k = keeper_of(this);
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept { shell::suspect_all(k, now); });
}

/// When a server goes down, all holders of its resources report it. Resources that were opened or
/// probed since the first report are not affected.
void gate::suspect(const resource* r) noexcept {
    keeper& k = keeper_of(this);
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        const core::slot& s = k.machine.look(r->slot);
        bool retired = s.epoch < k.machine.generation();
        bool suspected = k.can.probe && s.checked_at <= k.machine.suspect_at();
        if (!retired && !suspected) shell::suspect_all(k, now);
    });
}

void gate::replace_connector(std::unique_ptr<any_connector> next) {
    keeper& k = keeper_of(this);
    shell::must_match(k.can, next->abilities(), name_);
    connector_ref other(next.release());  // drops the present connector outside the lock
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        k.connector().swap(other);
        shell::retire_all(k, now);
    });
}

void gate::resize(std::size_t max) {
    keeper& k = keeper_of(this);
    validate(shell::settings_with(k, max));
    k.ensure_restarted();
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        // The machine last: the other parts must have room for all its slots. If memory runs out
        // before, they have room that is not used yet.
        k.leases.grow(max);
        k.calls.grow(max);
        k.machine.make_room(k.out);
        k.machine.make_places(max, k.out);
        k.max_now.store(max, std::memory_order_relaxed);
        k.work->resized(max);
        // Before: resources on the shelf are idle, and idle ones are closed a few at a time.
        if (max < k.machine.total()) k.lane.collect(now);
        k.machine.resize(now, max, k.out);
        // Afterwards: a waiter that was served in this step has a lease now.
        if (k.machine.total() > max) k.lane.recall(now);
    });
}

void gate::pause() {
    shell::command(this, &core::machine::pause,
                   [](lane& l, instant now) { l.shut(now, pool_paused); });
}

void gate::resume() {
    shell::command(this, &core::machine::resume, [](lane& l, instant) { l.open(pool_paused); });
}

/// Without maintenance there are no sweeps, which the fast lane needs.
void gate::suspend_maintenance() {
    shell::command(this, &core::machine::suspend_maintenance,
                   [](lane& l, instant now) { l.close(now, no_maintenance); });
}

void gate::resume_maintenance() {
    shell::command(this, &core::machine::resume_maintenance,
                   [](lane& l, instant) { l.open(no_maintenance); });
}

}  // namespace cenote::detail

// What users command a pool to do: other sizes, other connectors, pauses, suspicion.
#include <stdexcept>
#include <string>
#include <utility>

#include "shell/around.hpp"
#include "shell/enter.hpp"

namespace cenote::shell {

namespace {

/// A connector that replaces another one must be able to do what the pool counts on, and nothing
/// more: the pool would not ask for it.
void must_be_alike(const detail::connector_abilities& present,
                   const detail::connector_abilities& next, const std::string& pool) {
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

/// Everything now open is suspect. Without a probe nothing clears it of suspicion: it goes.
void suspect_all(keeper& k, core::instant now) CENOTE_REQUIRES(k.lock) {
    if (k.can.probe) return k.machine.suspect_all(now, k.out);  // lane.mind() recalls
    k.lane.recall(now);
    k.machine.retire_all(now, k.out);
}

}  // namespace

}  // namespace cenote::shell

namespace cenote::detail {

using core::instant;
using shell::keeper;
using shell::keeper_of;

void gate::retire_all() {
    keeper& k = keeper_of(this);
    k.catch_up();
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        k.machine.make_room(k.out);
        k.lane.recall(now);
        k.machine.retire_all(now, k.out);
    });
}

void gate::suspect_all() noexcept {
    keeper& k = keeper_of(this);
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept { shell::suspect_all(k, now); });
}

/// A server that goes down takes many leases with it, and all their holders say so. What has been
/// proven since the first of them is not what they speak of.
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
    shell::must_be_alike(k.can, next->abilities(), name_);
    connector_ref other(next.release());  // the present one ends with it, unlocked, if idle
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) noexcept {
        connector_.swap(other);
        k.lane.recall(now);
        k.machine.retire_all(now, k.out);
    });
}

void gate::resize(std::size_t max) {
    keeper& k = keeper_of(this);
    validate(shell::settings_with(k, max));
    k.catch_up();
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        // The machine last: what it has places for, all the others have. If memory runs out before,
        // they have some that nothing knows of yet.
        k.leases.grow(max);
        k.calls.grow(max);
        k.machine.make_room(k.out);
        k.machine.make_places(max, k.out);
        k.max_now.store(max, std::memory_order_relaxed);
        k.work->resized(max);
        // First: what lies on the shelf is idle, and its like are closed a few at a time.
        if (max < k.machine.total()) k.lane.collect(now);
        k.machine.resize(now, max, k.out);
        // Afterwards: a waiter that is served in this very step has a lease now.
        if (k.machine.total() > max) k.lane.recall(now);
    });
}

void gate::pause() {
    keeper& k = keeper_of(this);
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        k.machine.make_room(k.out);
        k.lane.shut(now, pool_paused);
        k.machine.pause(now, k.out);
    });
}

void gate::resume() {
    keeper& k = keeper_of(this);
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        k.machine.make_room(k.out);
        k.lane.open(pool_paused);
        k.machine.resume(now, k.out);
    });
}

/// The fast lane needs sweeps. Without maintenance it is shut.
void gate::suspend_maintenance() {
    keeper& k = keeper_of(this);
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        k.machine.make_room(k.out);
        k.lane.close(now, no_maintenance);
        k.machine.suspend_maintenance(now, k.out);
    });
}

void gate::resume_maintenance() {
    keeper& k = keeper_of(this);
    k.enter([&](instant now) CENOTE_REQUIRES(k.lock) {
        k.machine.make_room(k.out);
        k.lane.open(no_maintenance);
        k.machine.resume_maintenance(now, k.out);
    });
}

}  // namespace cenote::detail

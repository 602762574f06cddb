// The keeper and those who hold leases: who they are, since when, and who has held one for
// suspiciously long. All under the lock, which those on the fast lane do not take.
#include <algorithm>
#include <utility>

#include "shell/keeper.hpp"

namespace cenote::shell {

using core::duration;
using core::instant;

/// Whether somebody holds it. To the machine, what lies on the shelf is leased, too: a put has
/// followed its last hit then, or the grant.
bool keeper::is_out(core::slot_id id) const {
    if (machine_.look(id).state != core::slot_state::leased) return false;
    const detail::trace& seen = (*traces_)[id];
    std::uint64_t puts = seen.puts.load(std::memory_order_acquire) - places_[id].puts;
    return seen.hits.load(std::memory_order_acquire) - places_[id].hits == puts;
}

std::optional<keeper::holding> keeper::holding_of(core::slot_id id) const {
    const detail::trace& seen = (*traces_)[id];
    std::uint64_t puts = seen.puts.load(std::memory_order_acquire);
    if (!is_out(id)) return std::nullopt;
    std::int64_t at = seen.leased_at.load(std::memory_order_acquire);
    std::uint64_t hits = seen.hits.load(std::memory_order_acquire);
    holding h{.number = places_[id].grants + hits,
              .site = seen.site.load(std::memory_order_acquire),
              .since = at == 0 ? core::long_ago : instant{duration{at}},
              .leak_after = duration{seen.leak_after.load(std::memory_order_acquire)},
              .task = seen.task.load(std::memory_order_acquire)};
    // If it has ended meanwhile, this may be half the next one's.
    if (seen.puts.load(std::memory_order_acquire) != puts) return std::nullopt;
    return h;
}

/// Somebody got a lease and it is known when.
void keeper::note_lent(instant now, const borrower& who) {
    // Whatever was to be looked at before is back.
    bool alone = machine_.count(core::slot_state::leased) == 1;
    if (alone && shelf_sweep_at_ == core::never) leaks_.begin_look();
    leaks_.lent(now, who.how.leak_after);
}

/// Looks at all leases. Those from the shelf carry no time: whoever is found holding one holds it
/// at least from now, and what is too old meanwhile does not go back onto the shelf.
void keeper::note_holders(instant now) {
    leaks_.begin_look();
    bool awake = shelf_sweep_at_ != core::never;
    if (awake && holder_interval_ < shelf_interval_)
        leaks_.look_by(core::after(now, holder_interval_));
    for (core::slot_id id = 0; id < machine_.places(); ++id) {
        if (machine_.look(id).state != core::slot_state::leased) continue;
        if (machine_.look(id).expires_at <= now)
            (*traces_)[id].limit.store(0, std::memory_order_relaxed);
        if (std::optional<holding> h = holding_of(id)) {
            std::int64_t unknown = 0;
            if (h->since == core::long_ago) {
                h->since = now;
                (*traces_)[id].leased_at.compare_exchange_strong(
                    unknown, now.time_since_epoch().count(), std::memory_order_relaxed);
            }
            look_for_leak(now, id, *h);
        } else if (!awake) {
            // It is not on the shelf, so somebody is just taking it or handing it in. If it has
            // been taken, no sweep will see that.
            leaks_.look_by(core::after(now, holder_interval_));
        }
    }
}

void keeper::look_for_leak(instant now, core::slot_id id, const holding& h) {
    std::optional<duration> held =
        leaks_.see(now, {.slot = id, .number = h.number, .since = h.since, .limit = h.leak_after});
    if (!held) return;
    announcer_.note({.kind = event_kind::leak_suspected,
                     .pool = name_,
                     .resource = machine_.look(id).resource,
                     .took = *held,
                     .site = h.site,
                     .task = h.task});
}

/// Oldest first. Does not allocate if there is room for all.
void keeper::list_leases(instant now, std::vector<lease_info>& into) const {
    for (core::slot_id id = 0; id < machine_.places(); ++id) {
        std::optional<holding> h = holding_of(id);
        if (!h) continue;
        into.push_back(
            {.resource = machine_.look(id).resource,
             .site = h->site,
             .held = h->since == core::long_ago ? duration{} : std::max(now - h->since, duration{}),
             .task = h->task});
    }
    std::ranges::sort(into, [](const lease_info& a, const lease_info& b) {
        return std::pair(-a.held, a.resource) < std::pair(-b.held, b.resource);
    });
}

std::vector<lease_info> keeper::leases() const {
    std::vector<lease_info> all;
    all.reserve(places_.size());
    std::lock_guard lock(mutex_);
    if (is_behind()) return all;  // what was leased is the parent's
    list_leases(now(), all);
    return all;
}

std::vector<slot_info> keeper::slots() const {
    std::vector<slot_info> all;
    all.reserve(places_.size());
    std::lock_guard lock(mutex_);
    all.resize(max());
    if (is_behind()) return all;  // what was open is the parent's
    for (core::slot_id id = 0; id < machine_.places(); ++id) {
        const core::slot& s = machine_.look(id);
        if (s.state == slot_state::vacant) continue;
        // Beyond `max` is what a resize has left over.
        if (id >= all.size()) all.resize(id + 1);
        bool on_shelf = s.state == slot_state::leased && !is_out(id);
        bool opened = s.state != slot_state::opening;
        all[id] = {.state = on_shelf ? slot_state::idle : s.state,
                   .resource = opened ? s.resource : 0};
    }
    return all;
}

}  // namespace cenote::shell

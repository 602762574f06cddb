// Who has which lease, and which is held for suspiciously long.
#include "shell/lease_ledger.hpp"

#include <algorithm>
#include <utility>

namespace cenote::shell {

using core::duration;
using core::instant;
using detail::resource;

namespace {

/// How often to find out who has a lease from the fast lane, if sweeps are too rare for
/// `leak_after`; but not more often than a report can be due.
duration interval_of_inspections(const options& settings, duration sweep_interval) {
    return std::min(sweep_interval,
                    std::max(duration{settings.leak_after / 2}, core::leaks::shortest));
}

}  // namespace

lease_ledger::lease_ledger(const core::machine& machine, event_queue& events,
                           const std::string& name, const options& settings,
                           duration sweep_interval)
    : machine_(machine),
      events_(events),
      name_(name),
      max_uses_(settings.max_uses),
      interval_(interval_of_inspections(settings, sweep_interval)),
      inspects_between_sweeps_(interval_ < sweep_interval),
      traces_(std::make_unique<trace_array>(settings.max)),
      entries_(settings.max),
      leaks_(settings.max, settings.leak_after) {}

void lease_ledger::grow(std::size_t count) {
    leaks_.grow(count);
    traces_->grow(count);
    entries_.grow(count);
}

// The beginning and the end of leases.

void lease_ledger::granted(instant now, resource* r, const borrower& who, bool swept) {
    constexpr std::uint64_t unlimited = forever;
    const core::slot& s = machine_.look(r->slot);
    std::uint64_t so_far = hits(r);
    std::uint64_t left = max_uses_ - s.uses;
    std::uint64_t limit = left > unlimited - so_far ? unlimited : so_far + left;
    r->seen->limit.store(limit, std::memory_order_relaxed);
    write_trace(*r->seen, now, who.site, who.task, who.leak_after, who.holder);
    write_wait(r, now, who, was_opened_for(s, who));
    entry& e = entries_[r->slot];
    ++e.grants;
    e.hits_known = e.hits = so_far;
    e.puts = r->seen->puts.load(std::memory_order_relaxed);
    lease_began(now, who, swept);
}

void lease_ledger::taken(instant now, resource* r, const borrower& who, bool swept) {
    r->seen->hits.store(hits(r) + 1, std::memory_order_release);
    write_trace(*r->seen, now, who.site, who.task, who.leak_after, who.holder);
    write_wait(r, now, who, false);
    lease_began(now, who, swept);
}

/// Its first lease, by a borrower that was in line when it was opened.
bool lease_ledger::was_opened_for(const core::slot& s, const borrower& who) {
    return s.uses == 1 && who.was_in_line && s.idle_since >= who.arrived;
}

void lease_ledger::lease_began(instant now, const borrower& who, bool swept) {
    // Without other leases and sweeps, no earlier inspection is needed.
    bool alone = machine_.count(core::slot_state::leased) == 1;
    if (alone && !swept) leaks_.begin_look();
    leaks_.lent(now, who.leak_after);
}

// Who has which lease.

/// A leased resource is out unless a put has followed its last hit or its grant.
bool lease_ledger::is_out(core::slot_id id) const {
    if (machine_.look(id).state != core::slot_state::leased) return false;
    const detail::trace& seen = (*traces_)[id];
    std::uint64_t puts = seen.puts.load(std::memory_order_acquire) - entries_[id].puts;
    return seen.hits.load(std::memory_order_acquire) - entries_[id].hits == puts;
}

bool lease_ledger::name_holders(std::uint64_t thread, core::machine& machine) const {
    auto last_taken_by = [&](core::slot_id id) {
        return (*traces_)[id].holder.load(std::memory_order_relaxed);
    };
    core::slot_id first = 0;
    while (first < machine.places() && (last_taken_by(first) != thread || !is_out(first))) ++first;
    if (first == machine.places()) return false;
    for (core::slot_id id = 0; id < machine.places(); ++id)
        if (machine.look(id).state == core::slot_state::leased)
            machine.held_by(id, is_out(id) ? last_taken_by(id) : 0);
    return true;
}

std::optional<lease_ledger::lease_trace> lease_ledger::lease_of(core::slot_id id) const {
    const detail::trace& seen = (*traces_)[id];
    std::uint64_t puts = seen.puts.load(std::memory_order_acquire);
    if (!is_out(id)) return std::nullopt;
    std::int64_t at = seen.leased_at.load(std::memory_order_acquire);
    std::uint64_t so_far = seen.hits.load(std::memory_order_acquire);
    lease_trace lease{.number = entries_[id].grants + so_far,
                      .site = seen.site.load(std::memory_order_acquire),
                      .since = at == 0 ? core::long_ago : instant{duration{at}},
                      .leak_after = duration{seen.leak_after.load(std::memory_order_acquire)},
                      .task = seen.task.load(std::memory_order_acquire),
                      .holder = seen.holder.load(std::memory_order_acquire)};
    // If the lease has ended meanwhile, this may be half the trace of the next one.
    if (seen.puts.load(std::memory_order_acquire) != puts) return std::nullopt;
    return lease;
}

void lease_ledger::list(instant now, std::vector<lease_info>& into,
                        std::span<const std::uint64_t> waiting) const {
    for (core::slot_id id = 0; id < machine_.places(); ++id) {
        std::optional<lease_trace> lease = lease_of(id);
        if (!lease) continue;
        bool timed = lease->since != core::long_ago;
        into.push_back({.resource = machine_.look(id).resource,
                        .site = lease->site,
                        .held = timed ? std::max(now - lease->since, duration{}) : duration{},
                        .task = lease->task,
                        .holder_waits = std::ranges::binary_search(waiting, lease->holder)});
    }
    std::ranges::sort(into, [](const lease_info& a, const lease_info& b) {
        return std::pair(-a.held, a.resource) < std::pair(-b.held, b.resource);
    });
}

std::uint64_t lease_ledger::sum_of(std::atomic<std::uint64_t> detail::trace::* counter) const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < traces_->size(); ++i)
        sum += ((*traces_)[i].*counter).load(std::memory_order_acquire);
    return sum;
}

// Leaks.

/// Leases from the shelf carry no time: a borrower that is found with one has it at least from
/// `now`. A resource that has expired meanwhile must not be put on the shelf again.
void lease_ledger::inspect(instant now, bool swept) {
    leaks_.begin_look();
    if (swept) expect_from_shelf(now);
    for (core::slot_id id = 0; id < machine_.places(); ++id) {
        if (machine_.look(id).state != core::slot_state::leased) continue;
        detail::trace& seen = (*traces_)[id];
        if (machine_.look(id).expires_at <= now) seen.limit.store(0, std::memory_order_relaxed);
        if (std::optional<lease_trace> lease = lease_of(id)) {
            std::int64_t unknown = 0;
            if (lease->since == core::long_ago) {
                lease->since = now;
                seen.leased_at.compare_exchange_strong(unknown, now.time_since_epoch().count(),
                                                       std::memory_order_relaxed);
            }
            report_leak(now, id, *lease);
        } else if (!swept) {
            // It is not on the shelf, so a borrower is just taking or returning it. If it was
            // taken, no sweep will see that.
            leaks_.look_by(core::after(now, interval_));
        }
    }
}

void lease_ledger::expect_from_shelf(instant now) {
    if (inspects_between_sweeps_) leaks_.look_by(core::after(now, interval_));
}

void lease_ledger::report_leak(instant now, core::slot_id id, const lease_trace& lease) {
    std::optional<duration> held = leaks_.see(
        now, {.slot = id, .number = lease.number, .since = lease.since, .limit = lease.leak_after});
    if (!held) return;
    events_.add({.kind = event_kind::leak_suspected,
                 .pool = name_,
                 .resource = machine_.look(id).resource,
                 .took = *held,
                 .site = lease.site,
                 .task = lease.task});
}

// In the child of a fork.

void lease_ledger::forbid_puts() noexcept {
    for (std::size_t i = 0; i < traces_->size(); ++i) {
        std::atomic<std::uint64_t>& limit = (*traces_)[i].limit;
        // A store would copy the page.
        if (limit.load(std::memory_order_relaxed) != 0) limit.store(0, std::memory_order_relaxed);
    }
}

void lease_ledger::prepare_restart(std::size_t count) {
    parents_traces_.reserve(parents_traces_.size() + 1);
    next_traces_ = std::make_unique<trace_array>(count);
}

void lease_ledger::restart() noexcept {
    parents_traces_.push_back(std::exchange(traces_, std::move(next_traces_)));
    for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i] = {};
    leaks_.start_anew();
}

}  // namespace cenote::shell

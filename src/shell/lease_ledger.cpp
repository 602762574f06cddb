// Who holds which lease, and which is held for suspiciously long.
#include "shell/lease_ledger.hpp"

#include <algorithm>
#include <utility>

namespace cenote::shell {

using core::duration;
using core::instant;
using detail::resource;

namespace {

/// How often to look who holds a lease from the fast lane, if a sweep does not: often enough for
/// `leak_after`, and not more often than a report can be due.
duration interval_of_looks(const options& settings, duration sweep_interval) {
    return std::min(sweep_interval,
                    std::max(duration{settings.leak_after / 2}, core::leaks::shortest));
}

}  // namespace

lease_ledger::lease_ledger(const core::machine& machine, announcer& news, const std::string& name,
                           const options& settings, duration sweep_interval)
    : machine_(machine),
      news_(news),
      name_(name),
      max_uses_(settings.max_uses),
      interval_(interval_of_looks(settings, sweep_interval)),
      looks_between_sweeps_(interval_ < sweep_interval),
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
    std::uint64_t so_far = hits(r);
    std::uint64_t left = max_uses_ - machine_.look(r->slot).uses;
    std::uint64_t limit = left > unlimited - so_far ? unlimited : so_far + left;
    r->seen->limit.store(limit, std::memory_order_relaxed);
    sign(*r->seen, now, who);
    entry& e = entries_[r->slot];
    ++e.grants;
    e.hits_known = e.hits = so_far;
    e.puts = r->seen->puts.load(std::memory_order_relaxed);
    lent(now, who, swept);
}

void lease_ledger::taken(instant now, resource* r, const borrower& who, bool swept) {
    r->seen->hits.store(hits(r) + 1, std::memory_order_release);
    sign(*r->seen, now, who);
    lent(now, who, swept);
}

/// A lease began and it is known when.
void lease_ledger::lent(instant now, const borrower& who, bool swept) {
    // What was to be looked at before is back.
    bool alone = machine_.count(core::slot_state::leased) == 1;
    if (alone && !swept) leaks_.begin_look();
    leaks_.lent(now, who.how.leak_after);
}

// Who has what.

/// A put has followed its last hit, or the grant, if it is not.
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

std::optional<lease_ledger::holding_info> lease_ledger::holding_of(core::slot_id id) const {
    const detail::trace& seen = (*traces_)[id];
    std::uint64_t puts = seen.puts.load(std::memory_order_acquire);
    if (!is_out(id)) return std::nullopt;
    std::int64_t at = seen.leased_at.load(std::memory_order_acquire);
    std::uint64_t so_far = seen.hits.load(std::memory_order_acquire);
    holding_info h{.number = entries_[id].grants + so_far,
                   .site = seen.site.load(std::memory_order_acquire),
                   .since = at == 0 ? core::long_ago : instant{duration{at}},
                   .leak_after = duration{seen.leak_after.load(std::memory_order_acquire)},
                   .task = seen.task.load(std::memory_order_acquire)};
    // If it has ended meanwhile, this may be half the next one's.
    if (seen.puts.load(std::memory_order_acquire) != puts) return std::nullopt;
    return h;
}

void lease_ledger::list(instant now, std::vector<lease_info>& into) const {
    for (core::slot_id id = 0; id < machine_.places(); ++id) {
        std::optional<holding_info> h = holding_of(id);
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

std::uint64_t lease_ledger::all_puts() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < traces_->size(); ++i)
        sum += (*traces_)[i].puts.load(std::memory_order_acquire);
    return sum;
}

std::uint64_t lease_ledger::all_hits() const {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < traces_->size(); ++i)
        sum += (*traces_)[i].hits.load(std::memory_order_acquire);
    return sum;
}

// Leaks.

/// Leases from the shelf carry no time: a borrower that is found with one holds it at least from
/// now, and what is too old meanwhile does not go back onto the shelf.
void lease_ledger::look(instant now, bool swept) {
    leaks_.begin_look();
    if (swept) expect_some_from_shelf(now);
    for (core::slot_id id = 0; id < machine_.places(); ++id) {
        if (machine_.look(id).state != core::slot_state::leased) continue;
        detail::trace& seen = (*traces_)[id];
        if (machine_.look(id).expires_at <= now) seen.limit.store(0, std::memory_order_relaxed);
        if (std::optional<holding_info> h = holding_of(id)) {
            std::int64_t unknown = 0;
            if (h->since == core::long_ago) {
                h->since = now;
                seen.leased_at.compare_exchange_strong(unknown, now.time_since_epoch().count(),
                                                       std::memory_order_relaxed);
            }
            look_for_leak(now, id, *h);
        } else if (!swept) {
            // It is not on the shelf, so a borrower is just taking it or handing it in. If it has
            // been taken, no sweep will see that.
            leaks_.look_by(core::after(now, interval_));
        }
    }
}

void lease_ledger::expect_some_from_shelf(instant now) {
    if (looks_between_sweeps_) leaks_.look_by(core::after(now, interval_));
}

void lease_ledger::look_for_leak(instant now, core::slot_id id, const holding_info& h) {
    std::optional<duration> held =
        leaks_.see(now, {.slot = id, .number = h.number, .since = h.since, .limit = h.leak_after});
    if (!held) return;
    news_.note({.kind = event_kind::leak_suspected,
                .pool = name_,
                .resource = machine_.look(id).resource,
                .took = *held,
                .site = h.site,
                .task = h.task});
}

// In the child of a fork.

void lease_ledger::shut() noexcept {
    for (std::size_t i = 0; i < traces_->size(); ++i)
        if ((*traces_)[i].limit.load(std::memory_order_relaxed) != 0)
            (*traces_)[i].limit.store(0, std::memory_order_relaxed);
}

void lease_ledger::prepare_anew(std::size_t count) {
    old_traces_.reserve(old_traces_.size() + 1);
    next_traces_ = std::make_unique<trace_array>(count);
}

void lease_ledger::start_anew() noexcept {
    old_traces_.push_back(std::exchange(traces_, std::move(next_traces_)));
    for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i] = {};
    leaks_.start_anew();
}

}  // namespace cenote::shell

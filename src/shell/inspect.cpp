// Snapshots of a pool for observers outside: its numbers, its leases, its slots, its options.
#include <algorithm>
#include <bit>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "shell/operations.hpp"

namespace cenote::shell {

namespace {

/// What is read without the lock: the machine's numbers, and the sums of the traces.
struct numbers {
    stats machines;
    std::uint64_t puts = 0;
    std::uint64_t hits = 0;
    std::uint64_t collected = 0;
};

/// Without the lock each number is consistent in itself; `sequence` tells whether they fit
/// together.
numbers read_numbers(const keeper& k) CENOTE_UNCHECKED_LOCKING {
    numbers n;
    k.machine.read(n.machines);
    n.machines.leaks = k.leases.reported();
    n.collected = k.lane.collected();
    n.puts = k.leases.all_puts();
    n.hits = k.leases.all_hits();
    return n;
}

numbers read_at_one_instant(const keeper& k) {
    for (int tries = 1; tries <= 1000; ++tries) {
        std::uint64_t before = k.sequence.load(std::memory_order_acquire);
        if (before % 2 == 0) {
            numbers n = read_numbers(k);
            if (k.sequence.load(std::memory_order_relaxed) == before) return n;
        }
        if (tries % 16 == 0) std::this_thread::yield();
    }
    pool_guard here(k.lock);  // the pool never pauses
    return read_numbers(k);
}

/// To the machine, all leases over the shelf between two of its grants are one lease. Counts them
/// one by one: released = what came back to the machine, less what was only collected, plus puts.
void split_leases(const numbers& n, stats& s) {
    std::uint64_t granted = s.granted + n.hits;
    s.released = s.released + n.puts - n.collected;
    s.acquires += n.hits;
    std::uint64_t out = granted - s.released - s.detached;
    std::uint64_t leased = std::min(out, s.leased);
    s.acquires -= out - leased;  // leases taken after the puts were read
    s.granted = granted - (out - leased);
    s.idle += s.leased - leased;
    s.leased = leased;
}

}  // namespace

CENOTE_UNCHECKED_LOCKING std::size_t places(const keeper& k) { return k.calls.slots(); }

}  // namespace cenote::shell

namespace cenote::detail {

using shell::keeper;
using shell::keeper_of;
using shell::pool_guard;

CENOTE_UNCHECKED_LOCKING stats gate::read() const {
    const keeper& k = keeper_of(this);
    stats s;
    s.max = k.max_now;
    s.state = k.machine.state();
    if (k.forks.must_restart()) return s;
    shell::numbers n = shell::read_at_one_instant(k);
    s = n.machines;
    s.max = k.max_now;
    shell::split_leases(n, s);
    s.events_lost = k.events.lost();
    k.machine.read_histograms(s);
    return s;
}

CENOTE_UNCHECKED_LOCKING bool gate::closed() const noexcept {
    return keeper_of(this).machine.closed();
}

CENOTE_UNCHECKED_LOCKING bool gate::may_have_ready() const noexcept {
    bool on_shelf = (shelf_.raised() & sweeper_asleep) == 0;
    return on_shelf || keeper_of(this).machine.count(core::slot_state::idle) > 0;
}

std::exception_ptr gate::open_error() const {
    const keeper& k = keeper_of(this);
    pool_guard here(k.lock);
    return k.opens.error();
}

std::string gate::endpoint() const {
    const keeper& k = keeper_of(this);
    connector_ref now;  // asked without the lock: it is the user's
    {
        pool_guard here(k.lock);
        now = connector_ref(connector_.get());
    }
    return now.get() == nullptr ? std::string() : now->endpoint();
}

options gate::settings() const {
    const keeper& k = keeper_of(this);
    options o = shell::settings_with(k, k.max_now);
    pool_guard here(k.lock);
    o.breaker = k.reports.strategy();
    return o;
}

std::vector<lease_info> gate::leases() const {
    const keeper& k = keeper_of(this);
    std::vector<lease_info> all;
    std::vector<std::uint64_t> waiting;
    all.reserve(shell::places(k));
    waiting.reserve(shell::places(k));
    pool_guard here(k.lock);
    if (k.forks.must_restart()) return all;  // the leases are the parent's
    k.machine.visit_line([&](const core::waiter& each) {
        if (each.holder != 0) waiting.push_back(each.holder);
        return waiting.size() < waiting.capacity();
    });
    std::ranges::sort(waiting);
    k.leases.list(k.now_in_order(), all, waiting);
    return all;
}

std::vector<waiter_info> gate::waiters() const {
    constexpr std::size_t shown_max = 1000;  // bounds the time under the lock
    const keeper& k = keeper_of(this);
    std::vector<waiter_info> all;
    all.reserve(shown_max);
    pool_guard here(k.lock);
    if (k.forks.must_restart()) return all;  // the waiters are the parent's
    core::instant now = k.now_in_order();
    k.machine.visit_line([&](const core::waiter& each) {
        const auto* who = std::bit_cast<const waiter*>(each.cookie);
        all.push_back({.site = who->site, .waited = now - each.arrived, .task = who->wants.task});
        return all.size() < shown_max;
    });
    return all;
}

std::vector<slot_info> gate::slots() const {
    const keeper& k = keeper_of(this);
    std::vector<slot_info> all;
    all.reserve(shell::places(k));
    pool_guard here(k.lock);
    all.resize(k.max_now);
    if (k.forks.must_restart()) return all;  // the resources are the parent's
    for (core::slot_id id = 0; id < k.machine.places(); ++id) {
        const core::slot& s = k.machine.look(id);
        if (s.state == slot_state::vacant) continue;
        // Slots beyond `max` are left over from before a resize.
        if (id >= all.size()) all.resize(id + 1);
        bool on_shelf = s.state == slot_state::leased && !k.leases.is_out(id);
        bool opened = s.state != slot_state::opening;
        all[id] = {.state = on_shelf ? slot_state::idle : s.state,
                   .resource = opened ? s.resource : 0};
    }
    return all;
}

}  // namespace cenote::detail

// The slots of a pool: their states, and the idle ones in the order in which they are lent.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cenote/options.hpp"
#include "cenote/stats.hpp"
#include "core/ensure.hpp"
#include "core/instant.hpp"
#include "core/tally.hpp"

namespace cenote::core {

using slot_id = std::uint32_t;
inline constexpr slot_id no_slot = ~slot_id{0};

using cenote::slot_state;

/// What a probe is for.
enum class probe_purpose : std::uint8_t { lend, heartbeat, release };

/// What may be done with an idle slot.
enum class idle_kind : std::uint8_t {
    fresh,   // lend it as it is
    stale,   // probe it before it is lent
    doomed,  // close it when its turn comes
    kept,    // lend it to the head of the line, when there are as many as it wants
    aside,   // for a moment reserved for the thread that released it
};
inline constexpr std::size_t idle_kind_count = 5;

/// The fields that a hand-over changes are on one cache line.
struct alignas(64) slot {
    std::uint64_t uses = 0;   // leases so far
    std::uint64_t epoch = 0;  // the number of retire_all before it was opened
    std::uint64_t holder =
        0;                 // the thread that leases it, or for which it is set aside; 0: unknown
    instant expires_at{};  // age limit, drawn when it was opened
    instant idle_since{};  // end of its last lease, or of its open
    instant checked_at{};  // last proof of life: its open or its last successful probe
    instant leased_at{};
    slot_id previous = no_slot;  // neighbors in its idle list
    slot_id next = no_slot;
    slot_state state = slot_state::vacant;
    idle_kind idle = idle_kind::fresh;
    bool expiring = false;       // idle and too old; kept until its replacement is open
    bool trial = false;          // lent while the circuit recovers
    bool begun = false;          // a worker makes the call in flight
    bool owes = false;           // owes a reset, which its next use makes
    probe_purpose purpose{};     // of the probe in flight
    bool by_thread = false;      // it was lent to a thread last
    priority rank{};             // the priority of that request
    std::uint32_t turns = 0;     // how often its thread took it back in this turn
    std::uint64_t resource = 0;  // number of the resource in it: that of the call that opened it
    std::uint64_t call = 0;      // number of the call in flight; 0 = none
    instant called_at{};         // start of the call in flight
    std::uint64_t lent = 0;      // the number of its lease among all
    std::uint64_t trial_of = 0;  // of a trial: the number of moves of the circuit
    instant turn_began{};        // when its turn began
};

/// The slots, counted by state. A slot is in exactly one state; the counts change only where a
/// state changes, so they cannot drift.
///
/// There are at least `max` slots. After a resize to a smaller max the number of slots stays:
/// surplus resources have to go, and surplus vacant slots stay vacant.
///
/// Idle slots are in one of five lists: fresh ones in the order of their last use, the others in
/// the order in which they entered their list.
class slots {
public:
    explicit slots(std::size_t max);

    slot& operator[](slot_id id) { return table_[id]; }
    const slot& operator[](slot_id id) const { return table_[id]; }

    /// Makes at least `count` slots. Throws std::bad_alloc without any change.
    void make_places(std::size_t count);
    /// Requires make_places(max).
    void resize(std::size_t max);

    std::size_t max() const { return static_cast<std::size_t>(max_.get()); }
    /// Slots are numbered from zero up to this.
    std::size_t places() const { return table_.size(); }
    std::size_t count(slot_state s) const { return counts_[static_cast<std::size_t>(s)].get(); }
    /// The number of slots that are not vacant.
    std::size_t total() const { return places() - count(slot_state::vacant); }
    /// How many vacant slots may be filled.
    std::size_t room() const { return max() > total() ? max() - total() : 0; }
    /// Whether there are more resources than max, without those that are closing, doomed or still
    /// opening; or would be with `more` of them.
    bool surplus(std::size_t more = 0) const {
        return total() - count(slot_state::closing) - count(slot_state::opening) - doomed_ + more >
               max();
    }
    std::size_t expiring() const { return expiring_; }

    /// The slot vacated last. Requires a vacant slot.
    slot_id vacant() const;

    /// Changes the state of a slot, and removes it from its idle list. To make it idle, use
    /// make_fresh().
    void enter(slot_id id, slot_state next);

    /// Makes a slot idle, at its place among the fresh ones by its last use (`idle_since`).
    void make_fresh(slot_id id);
    // Shorter forms for the hand-over path.

    /// enter(leased) for a fresh slot.
    void lend(slot_id id);
    /// make_fresh() for a leased slot.
    void take_back(slot_id id);
    /// Makes a leased slot idle and sets it aside.
    void set_aside(slot_id id);
    /// Moves an idle slot to the end of another list, or to its place among the fresh ones.
    void move(slot_id id, idle_kind kind);
    /// Marks an idle slot as too old, and kept until its replacement is open.
    void mark_expiring(slot_id id);

    slot_id oldest(idle_kind kind) const { return lists_[static_cast<std::size_t>(kind)].head; }
    slot_id newest(idle_kind kind) const { return lists_[static_cast<std::size_t>(kind)].tail; }
    std::size_t doomed() const { return doomed_; }
    std::size_t kept() const { return kept_; }
    std::size_t aside() const { return static_cast<std::size_t>(aside_.get()); }

    /// Asserts that counts, lists and states agree.
    void check() const;

private:
    struct list {
        slot_id head = no_slot;
        slot_id tail = no_slot;
    };

    void link(list& where, slot_id behind, slot_id id);
    slot_id last_used_before(const slot& s) const;
    void unlink(slot_id id);
    std::size_t check_list(idle_kind kind) const;
    list& list_of(const slot& s) { return lists_[static_cast<std::size_t>(s.idle)]; }
    // Without bounds checks, for the lists' own links.
    slot& linked(slot_id id) { return table_.data()[id]; }
    template <slot_state From, slot_state To>
    void count_move() {
        --std::get<static_cast<std::size_t>(From)>(counts_);
        ++std::get<static_cast<std::size_t>(To)>(counts_);
    }

    std::vector<slot> table_;
    tally max_;
    std::vector<slot_id> vacant_;
    std::array<list, idle_kind_count> lists_;
    std::size_t expiring_ = 0;
    std::size_t doomed_ = 0;
    std::size_t kept_ = 0;
    tally aside_;
    std::array<tally, slot_state_count> counts_;
};

[[gnu::always_inline]] inline void slots::lend(slot_id id) {
    slot& s = table_[id];
    ensure(s.state == slot_state::idle && s.idle == idle_kind::fresh && !s.expiring,
           "a lent slot is fresh");
    list& fresh = std::get<static_cast<std::size_t>(idle_kind::fresh)>(lists_);
    (s.previous == no_slot ? fresh.head : linked(s.previous).next) = s.next;
    (s.next == no_slot ? fresh.tail : linked(s.next).previous) = s.previous;
    count_move<slot_state::idle, slot_state::leased>();
    s.state = slot_state::leased;
}

inline void slots::take_back(slot_id id) {
    slot& s = table_[id];
    list& fresh = std::get<static_cast<std::size_t>(idle_kind::fresh)>(lists_);
    slot_id last = fresh.tail;
    bool newest = last == no_slot || linked(last).idle_since <= s.idle_since;
    if (!newest || s.state != slot_state::leased) [[unlikely]]
        return make_fresh(id);
    s.previous = last;
    s.next = no_slot;
    (last == no_slot ? fresh.head : linked(last).next) = id;
    fresh.tail = id;
    count_move<slot_state::leased, slot_state::idle>();
    s.idle = idle_kind::fresh;
    s.state = slot_state::idle;
}

}  // namespace cenote::core

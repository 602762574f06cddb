// The places of a pool: what state each is in, and the idle ones in the order they are lent.
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

/// What a probe is for, and so what follows it.
enum class probe_purpose : std::uint8_t { lend, heartbeat, release };

/// What may be done with an idle slot.
enum class idle_kind : std::uint8_t {
    fresh,   // lend it as it is
    stale,   // probe it before it is lent
    doomed,  // close it when its turn comes
    kept,    // lend it to the head of the line, when there are as many as it wants
    aside,   // for a moment only the thread that gave it back may have it
};
inline constexpr std::size_t idle_kind_count = 5;

/// What changes when a lease goes from one holder to the next is on one cache line.
struct alignas(64) slot {
    std::uint64_t uses = 0;    // leases so far
    std::uint64_t epoch = 0;   // how many retire_all came before its birth
    std::uint64_t holder = 0;  // the thread that leases it, or it is set aside for; 0: unknown
    instant expires_at{};      // age limit, drawn once at birth
    instant idle_since{};      // end of its last lease, or its birth
    instant checked_at{};      // last proof of life: its birth or its last good probe
    instant leased_at{};
    slot_id previous = no_slot;  // neighbours in the idle list it is in
    slot_id next = no_slot;
    slot_state state = slot_state::vacant;
    idle_kind idle = idle_kind::fresh;
    bool expiring = false;       // idle and too old; stays until its replacement is there
    bool trial = false;          // lent while the circuit was recovering
    bool begun = false;          // the call in flight is being made
    bool owes = false;           // it came back before its reset, which its next use makes
    probe_purpose purpose{};     // of the probe in flight
    bool by_thread = false;      // a thread was lent it last
    priority rank{};             // with which priority it was
    std::uint32_t turns = 0;     // how often it was taken back since it was lent to somebody else
    std::uint64_t resource = 0;  // number of the resource in it: that of the call that opened it
    std::uint64_t call = 0;      // number of the call in flight; 0 = none
    instant called_at{};         // start of the call in flight
    std::uint64_t lent = 0;      // which of all lends it was
    std::uint64_t trial_of = 0;  // if it is a trial: how often the circuit had moved
    instant turn_began{};        // when it was lent to somebody else
};

/// The slots, counted by state. The states are exclusive and add up to the places; the counts
/// change nowhere but in enter(), so they cannot drift.
///
/// There are at least `max` places. A smaller max leaves the places as they are: what is in the
/// surplus ones has to go, and the vacant ones are not filled.
///
/// The idle ones are in one of five lists: the fresh in the order of their last use, the others in
/// the order in which they were found to be so.
class slots {
public:
    explicit slots(std::size_t max);

    slot& operator[](slot_id id) { return table_[id]; }
    const slot& operator[](slot_id id) const { return table_[id]; }

    /// There are at least so many places from now on. Throws std::bad_alloc before anything has
    /// changed.
    void make_places(std::size_t count);
    /// Requires as many places.
    void resize(std::size_t max);

    std::size_t max() const { return static_cast<std::size_t>(max_.get()); }
    /// Slots are numbered from zero up to this.
    std::size_t places() const { return table_.size(); }
    std::size_t count(slot_state s) const { return counts_[static_cast<std::size_t>(s)].get(); }
    /// Everything that is not vacant.
    std::size_t total() const { return places() - count(slot_state::vacant); }
    /// How many vacant ones may be filled.
    std::size_t room() const { return max() > total() ? max() - total() : 0; }
    /// Whether there are more than max, counting neither those that are going already nor those
    /// that may never come. `more`: if so many more came.
    bool surplus(std::size_t more = 0) const {
        return total() - count(slot_state::closing) - count(slot_state::opening) - doomed_ + more >
               max();
    }
    std::size_t expiring() const { return expiring_; }

    /// A vacant slot: the one vacated last. Requires that there is one.
    slot_id vacant() const;

    /// Changes the state of a slot; takes it out of the idle lists when it leaves idle. For the way
    /// into idle use make_fresh().
    void enter(slot_id id, slot_state next);

    /// Makes a slot idle and puts it where its last use (`idle_since`) belongs among the fresh.
    void make_fresh(slot_id id);
    /// The same as enter() for a fresh slot that is lent, and as make_fresh() for a leased one that
    /// comes back: the usual ways, and so the short ones.
    void lend(slot_id id);
    void take_back(slot_id id);
    /// A leased one comes back, and is set aside.
    void set_aside(slot_id id);
    /// Moves an idle slot to the end of the stale, of the doomed or of the kept, or to its place
    /// among the fresh.
    void move(slot_id id, idle_kind kind);
    /// Marks an idle slot as kept only until its replacement is there.
    void mark_expiring(slot_id id);

    slot_id oldest(idle_kind kind) const { return lists_[static_cast<std::size_t>(kind)].head; }
    slot_id newest(idle_kind kind) const { return lists_[static_cast<std::size_t>(kind)].tail; }
    std::size_t doomed() const { return doomed_; }
    std::size_t kept() const { return kept_; }
    std::size_t aside() const { return static_cast<std::size_t>(aside_.get()); }

    /// Aborts if counts, lists and states disagree.
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
    // By the links, which are the slots' own.
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
           "what is lent is fresh");
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

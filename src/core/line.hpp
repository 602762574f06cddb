// The line of waiters: who came first, and whose deadline comes first.
#pragma once

#include <cstdint>
#include <vector>

#include "core/deadlines.hpp"
#include "core/ensure.hpp"
#include "core/fault.hpp"
#include "core/instant.hpp"
#include "core/tally.hpp"

namespace cenote::core {

/// Names a waiter. Goes stale when the waiter leaves the line; a stale one is recognised.
class waiter_id {
public:
    waiter_id() = default;
    waiter_id(std::uint32_t index, std::uint32_t generation)
        : both_(std::uint64_t{generation} << 32 | index) {}

    std::uint32_t index() const { return static_cast<std::uint32_t>(both_); }
    std::uint32_t generation() const { return static_cast<std::uint32_t>(both_ >> 32); }
    bool operator==(const waiter_id&) const = default;

private:
    std::uint64_t both_ = ~std::uint32_t{0};  // one number: written and read in one piece
};

/// What is known about somebody who waits.
struct waiter {
    std::uint64_t cookie = 0;  // the caller's own name for it
    std::uint64_t ticket = 0;  // rising with arrival; a smaller one is served first
    instant arrived{};
    instant deadline{};
    bool bypassable = false;  // newcomers may overtake it for a while (bounded fairness)
};

/// First come, first served. Joining may allocate; nothing else does.
///
/// Invariants:
/// 1. Tickets rise from head to tail.
/// 2. Everybody in line has a deadline in `deadlines`, except those who wait for ever.
class line {
public:
    bool empty() const { return size() == 0; }
    std::size_t size() const { return static_cast<std::size_t>(size_.get()); }

    /// Room for one more, before anything is changed. Throws std::bad_alloc.
    void make_room() {
        if (!has_room()) grow();
    }
    bool has_room() const { return free_ != none; }

    /// Adds a waiter behind the last one whose ticket is smaller. Requires make_room() before.
    waiter_id join(const waiter& who);

    /// Whether `id` is in the line.
    bool has(waiter_id id) const;

    waiter& at(waiter_id id);
    /// Whoever is served next. Requires that somebody waits.
    const waiter& first() const { return nodes_[head_].who; }
    waiter_id head() const { return id_of(head_); }
    waiter_id last() const { return id_of(tail_); }
    /// Takes the head out. What was known about it stays until somebody joins.
    const waiter& leave_first() {
        ensure(head_ != none, "the line has a head");
        return take_out(head_);
    }

    /// Takes a waiter out and returns what was known about it.
    waiter leave(waiter_id id);

    /// The earliest deadline in the line, and whose it is.
    instant earliest() const { return deadlines_.earliest(); }
    waiter_id first_due() const;

    /// How many could join without allocating.
    std::size_t capacity() const { return nodes_.size(); }

    void check() const;

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    struct node {
        waiter who;
        std::uint32_t previous = none;
        std::uint32_t next = none;
        std::uint32_t generation = 0;
        bool in_line = false;
    };

    waiter_id id_of(std::uint32_t index) const { return {index, nodes_[index].generation}; }
    void grow();
    const waiter& take_out(std::uint32_t index);

    std::vector<node> nodes_;
    deadlines deadlines_;
    std::uint32_t head_ = none;
    std::uint32_t tail_ = none;
    std::uint32_t free_ = none;
    tally size_;
};

// Inline, because everybody who waits comes through here.

inline waiter_id line::join(const waiter& who) {
    ensure(free_ != none, "there is room in the line");
    std::uint32_t index = free_;
    node& n = nodes_[index];
    free_ = n.next;
    // One by one: a block is read in one piece, which has to wait for the parts just written.
    n.who.cookie = who.cookie;
    n.who.ticket = who.ticket;
    n.who.arrived = who.arrived;
    n.who.deadline = who.deadline;
    n.who.bypassable = who.bypassable;
    n.in_line = true;
    std::uint32_t behind = tail_;
    while (behind != none && nodes_[behind].who.ticket > who.ticket)
        behind = nodes_[behind].previous;
    if (planted(fault::line_is_last_in_first_out)) behind = none;
    n.previous = behind;
    n.next = behind == none ? head_ : nodes_[behind].next;
    (behind == none ? head_ : nodes_[behind].next) = index;
    (n.next == none ? tail_ : nodes_[n.next].previous) = index;
    deadlines_.add(index, who.deadline);
    ++size_;
    return id_of(index);
}

inline const waiter& line::take_out(std::uint32_t index) {
    node& n = nodes_[index];
    deadlines_.remove(index);
    (n.previous == none ? head_ : nodes_[n.previous].next) = n.next;
    (n.next == none ? tail_ : nodes_[n.next].previous) = n.previous;
    n.in_line = false;
    if (!planted(fault::stale_cancel_hits_another)) ++n.generation;
    n.next = free_;
    free_ = index;
    --size_;
    return n.who;
}

}  // namespace cenote::core

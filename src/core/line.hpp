// The line of waiters: who came first, and whose deadline comes first.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cenote/options.hpp"
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
    std::uint64_t holder = 0;  // the thread that waits; 0: unknown
    instant arrived{};
    instant deadline{};
    std::uint32_t count = 1;  // so many resources or none
    priority rank = priority::normal;
    bool bypassable = false;  // newcomers may overtake it for a while (bounded fairness)
};

/// First come, first served, with a head start for each priority: a queue for each, and whoever of
/// their heads has the earliest turn is served next. Joining may allocate; nothing else does.
///
/// Invariants:
/// 1. Tickets rise along each queue.
/// 2. Everybody in line has a deadline in `deadlines`, except those who wait for ever.
/// 3. The head's turn comes before that of all others.
class line {
public:
    explicit line(duration head_start = std::chrono::seconds{1}) : head_start_(head_start) {}

    bool empty() const { return size() == 0; }
    std::size_t size() const { return static_cast<std::size_t>(size_.get()); }

    /// How many resources they want.
    std::size_t wanted() const { return wanted_; }

    /// Room for one more, before anything is changed. Throws std::bad_alloc.
    void make_room() {
        if (!has_room()) grow();
    }
    bool has_room() const { return free_ != none; }

    /// Adds a waiter to its queue, behind the last one whose ticket is smaller. Requires
    /// make_room() before.
    waiter_id join(const waiter& who);

    /// Whether `id` is in the line.
    bool has(waiter_id id) const;

    waiter& at(waiter_id id);
    const waiter& at(waiter_id id) const;
    /// Whoever is served next. Requires that somebody waits.
    const waiter& first() const { return nodes_[head_].who; }
    waiter_id head() const { return id_of(head_); }
    /// Whoever is served last.
    waiter_id last() const;
    /// Whoever came first, but for the reserved; nobody's name if there is nobody.
    waiter_id oldest() const;
    /// Somebody who wants more than so many at once; nobody's name if there is nobody. Looks at
    /// everybody.
    waiter_id who_wants_more_than(std::size_t count) const;
    /// Takes the head out. What was known about it stays until somebody joins.
    const waiter& leave_first() {
        ensure(head_ != none, "the line has a head");
        return take_out(head_);
    }

    /// Takes a waiter out and returns what was known about it.
    waiter leave(waiter_id id);

    /// Whether this thread is in line. Looks at everybody.
    bool has_thread(std::uint64_t holder) const;

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

    struct queue {
        std::uint32_t head = none;
        std::uint32_t tail = none;
    };

    waiter_id id_of(std::uint32_t index) const { return {index, nodes_[index].generation}; }
    queue& queue_of(const waiter& w) { return queues_[static_cast<std::size_t>(w.rank)]; }
    instant turn(const waiter& w) const;
    bool before(std::uint32_t a, std::uint32_t b) const;
    std::uint32_t find_head() const;
    void check_queue(const queue& q, std::size_t& count, std::size_t& timed) const;
    void grow();
    const waiter& take_out(std::uint32_t index);

    std::vector<node> nodes_;
    deadlines deadlines_;
    std::array<queue, priority_count> queues_;
    duration head_start_;
    std::uint32_t head_ = none;
    std::uint32_t free_ = none;
    std::size_t wanted_ = 0;
    tally size_;
};

// Inline, because everybody who waits comes through here.

/// When it would be served if everybody came through one queue.
inline instant line::turn(const waiter& w) const {
    if (w.rank == priority::reserved) return long_ago;
    auto behind = static_cast<std::int64_t>(w.rank) - static_cast<std::int64_t>(priority::high);
    return after(w.arrived, head_start_ * behind);
}

inline bool line::before(std::uint32_t a, std::uint32_t b) const {
    const waiter& x = nodes_[a].who;
    const waiter& y = nodes_[b].who;
    if (x.rank == y.rank) return x.ticket < y.ticket;
    instant turn_x = turn(x);
    instant turn_y = turn(y);
    return turn_x != turn_y ? turn_x < turn_y : x.ticket < y.ticket;
}

inline std::uint32_t line::find_head() const {
    std::uint32_t found = none;
    for (const queue& q : queues_)
        if (q.head != none && (found == none || before(q.head, found))) found = q.head;
    return found;
}

inline waiter_id line::join(const waiter& who) {
    ensure(free_ != none, "there is room in the line");
    std::uint32_t index = free_;
    node& n = nodes_[index];
    free_ = n.next;
    // One by one: a block is read in one piece, which has to wait for the parts just written.
    n.who.cookie = who.cookie;
    n.who.ticket = who.ticket;
    n.who.holder = who.holder;
    n.who.arrived = who.arrived;
    n.who.deadline = who.deadline;
    n.who.count = who.count;
    n.who.rank = who.rank;
    n.who.bypassable = who.bypassable;
    n.in_line = true;
    queue& q = queue_of(who);
    std::uint32_t behind = q.tail;
    while (behind != none && nodes_[behind].who.ticket > who.ticket)
        behind = nodes_[behind].previous;
    if (planted(fault::line_is_last_in_first_out)) behind = none;
    n.previous = behind;
    n.next = behind == none ? q.head : nodes_[behind].next;
    (behind == none ? q.head : nodes_[behind].next) = index;
    (n.next == none ? q.tail : nodes_[n.next].previous) = index;
    bool first = head_ == none || (q.head == index && before(index, head_));
    if (planted(fault::line_is_last_in_first_out)) first = true;
    if (planted(fault::priority_does_not_count)) first = head_ == none;
    if (first) head_ = index;
    deadlines_.add(index, who.deadline);
    ++size_;
    wanted_ += who.count;
    return id_of(index);
}

inline const waiter& line::take_out(std::uint32_t index) {
    node& n = nodes_[index];
    queue& q = queue_of(n.who);
    deadlines_.remove(index);
    (n.previous == none ? q.head : nodes_[n.previous].next) = n.next;
    (n.next == none ? q.tail : nodes_[n.next].previous) = n.previous;
    n.in_line = false;
    if (index == head_) head_ = find_head();
    if (!planted(fault::stale_cancel_hits_another)) ++n.generation;
    n.next = free_;
    free_ = index;
    --size_;
    wanted_ -= n.who.count;
    return n.who;
}

}  // namespace cenote::core

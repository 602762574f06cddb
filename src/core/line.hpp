// The line of waiters, ordered by priority and arrival, and by deadline.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "cenote/options.hpp"
#include "core/deadlines.hpp"
#include "core/ensure.hpp"
#include "core/instant.hpp"
#include "core/tally.hpp"

namespace cenote::core {

/// Names a waiter. It becomes stale when the waiter leaves the line, and a stale one is recognized.
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

/// One waiter.
struct waiter {
    std::uint64_t cookie = 0;  // the caller's name for it
    std::uint64_t ticket = 0;  // rises with arrival; smaller ones are served first
    std::uint64_t holder = 0;  // the thread that waits; 0: unknown
    instant arrived{};
    instant deadline{};
    std::uint32_t count = 1;  // the number of resources, all or none
    priority rank = priority::normal;
    bool bypassable = false;  // newcomers may overtake it for a while (bounded fairness)
    bool is_thread = false;   // it blocks a thread
};

/// First come, first served, with a head start for each priority: one queue for each priority, and
/// the queue head with the earliest turn is served next. Only join() allocates.
///
/// Deadlines: with equal timeouts they rise along a queue, so the queue itself is the sorted list
/// of deadlines. A deadline is *in order* if it is not earlier than the last one in order before it
/// in its queue. Other deadlines, and those of waiters that return to an old place, are in a heap.
/// Waiters without a deadline are in neither.
///
/// Invariants:
/// 1. Tickets rise along each queue; those queues that are not empty are marked in `ranks_`.
/// 2. Every deadline is either in order or in the heap.
/// 3. Deadlines in order do not fall along a queue, and none is later than its `latest`; `timed` is
///    the first of them. Without any, `latest` is long ago.
/// 4. The earliest deadline is the heap's first or that of a queue's `timed`. Among equal deadlines
///    the smallest ticket is first, in any queue or in the heap.
/// 5. The head's turn comes before all others.
class line {
public:
    explicit line(duration head_start = std::chrono::seconds{1}) : head_start_(head_start) {}

    bool empty() const { return head_ == none; }
    std::size_t size() const { return static_cast<std::size_t>(size_.get()); }

    /// The number of resources that all waiters want.
    std::size_t wanted() const { return wanted_; }

    /// Makes room for one more waiter. Throws std::bad_alloc without any change.
    void make_room() {
        if (!has_room()) grow();
    }
    bool has_room() const { return free_ != none; }

    /// Adds a waiter to its queue, behind the last one with a smaller ticket. Requires make_room().
    waiter_id join(const waiter& who);

    /// Whether `id` is in the line.
    bool has(waiter_id id) const;

    const waiter& at(waiter_id id) const;
    /// The waiter that is served next. Requires a waiter.
    const waiter& first() const { return get(head_).who; }
    waiter_id head() const { return id_of(head_); }
    /// The waiter that is served last.
    waiter_id last() const;
    /// The waiter that arrived first, `reserved` ones aside; an invalid id if there is no other.
    waiter_id oldest() const;
    /// A waiter that wants more than `count` at once; an invalid id if there is none. O(waiters).
    waiter_id who_wants_more_than(std::size_t count) const;
    /// Removes the head. The reference is valid until the next join().
    const waiter& leave_first();

    /// Removes a waiter and returns it.
    waiter leave(waiter_id id);

    /// Whether this thread is in line. O(waiters).
    bool has_thread(std::uint64_t holder) const;
    /// Calls `f` with the waiters, those of the highest priority first and each priority in its
    /// order, until `f` returns false.
    template <class F>
    void visit(F f) const {
        for (const queue& q : queues_)
            for (std::uint32_t i = q.head; i != none; i = get(i).next)
                if (!f(get(i).who)) return;
    }

    /// The earliest deadline in the line, and its waiter: of several, the one with the smallest
    /// ticket.
    instant earliest() const { return earliest_; }
    waiter_id first_due() const;

    /// How many waiters fit without allocating.
    std::size_t capacity() const { return nodes_.size(); }

    void check() const;

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    /// Where a waiter's deadline is found.
    enum class timing : std::uint8_t { none, in_order, in_heap };

    /// One cache line, because the waiters that join and leave are often far apart in memory.
    struct alignas(64) node {
        waiter who;
        std::uint32_t previous = none;
        std::uint32_t next = none;
        std::uint32_t generation = 0;
        bool in_line = false;
        timing deadline{};
    };
    static_assert(sizeof(node) == 64);

    struct queue {
        std::uint32_t head = none;
        std::uint32_t tail = none;
        std::uint32_t timed = none;
        instant latest = long_ago;
    };

    // Without bounds checks: indices come from the line's own links, or from has().
    node& get(std::uint32_t index) { return nodes_.data()[index]; }
    const node& get(std::uint32_t index) const { return nodes_.data()[index]; }
    waiter_id id_of(std::uint32_t index) const { return {index, get(index).generation}; }
    queue& queue_of(const waiter& w) { return queues_[static_cast<std::size_t>(w.rank)]; }
    static unsigned mark_of(const waiter& w) { return 1u << static_cast<unsigned>(w.rank); }
    bool is_one_queue() const { return (ranks_ & (ranks_ - 1)) == 0; }
    instant turn(const waiter& w) const;
    bool before(std::uint32_t a, std::uint32_t b) const;
    bool due_before(std::uint32_t a, std::uint32_t b) const;
    std::uint32_t find_head() const;
    instant find_earliest() const;
    waiter_id insert(std::uint32_t index);
    void note_deadline(queue& q, std::uint32_t index);
    void forget_deadline(queue& q, std::uint32_t index);
    void find_timed(queue& q, std::uint32_t from);
    const waiter& take_out(std::uint32_t index);
    void check_queue(std::size_t rank, std::size_t& count, std::size_t& heaped,
                     instant& earliest) const;
    void grow();
    const waiter& let_go(std::uint32_t index);

    std::vector<node> nodes_;
    std::array<queue, priority_count> queues_;
    duration head_start_;
    std::uint32_t head_ = none;
    std::uint32_t free_ = none;
    unsigned ranks_ = 0;  // a bit for each queue with waiters
    instant earliest_ = never;
    std::size_t wanted_ = 0;
    tally size_;
    deadlines heap_;
};

// Inline, because every wait uses them.

/// Always inlined, so that what is known about a waiter is written once.
[[gnu::always_inline]] inline waiter_id line::join(const waiter& who) {
    ensure(free_ != none, "there is room in the line");
    std::uint32_t index = free_;
    node& n = get(index);
    free_ = n.next;
    n.who.cookie = who.cookie;
    n.who.ticket = who.ticket;
    n.who.holder = who.holder;
    n.who.arrived = who.arrived;
    n.who.deadline = who.deadline;
    n.who.count = who.count;
    n.who.rank = who.rank;
    n.who.bypassable = who.bypassable;
    n.who.is_thread = who.is_thread;
    n.in_line = true;
    ++size_;
    wanted_ += who.count;
    queue& q = queue_of(who);
    // Usually it is the last in everything: by its ticket and by its deadline.
    bool last = q.tail != none && get(q.tail).who.ticket < who.ticket;
    if (!last || q.timed == none || who.deadline < q.latest) [[unlikely]]
        return insert(index);
    n.previous = q.tail;
    n.next = none;
    n.deadline = timing::none;
    get(q.tail).next = index;
    q.tail = index;
    if (who.deadline != never) {
        n.deadline = timing::in_order;
        q.latest = who.deadline;
    }
    return {index, n.generation};
}

[[gnu::always_inline]] inline const waiter& line::leave_first() {
    ensure(head_ != none, "the line has a head");
    node& n = get(head_);
    queue& q = queues_.data()[static_cast<std::size_t>(n.who.rank)];  // join() checked the rank
    std::uint32_t left = head_;
    std::uint32_t next = n.next;
    // Usually there is another one in the same queue, and no other queue, nor any other deadline.
    if (next == none || !is_one_queue() || !heap_.empty()) [[unlikely]]
        return take_out(left);
    node& m = get(next);
    m.previous = none;
    q.head = head_ = next;
    // The next head, for the next call.
    __builtin_prefetch(&get(m.next == none ? next : m.next));
    if (n.deadline != timing::none) {
        if (m.deadline != timing::in_order) [[unlikely]]
            return find_timed(q, next), let_go(left);
        q.timed = next;
        earliest_ = m.who.deadline;
    }
    return let_go(left);
}

/// Frees the node of a waiter that was removed from its queue.
[[gnu::always_inline]] inline const waiter& line::let_go(std::uint32_t index) {
    node& n = get(index);
    n.in_line = false;
    ++n.generation;
    n.next = free_;
    free_ = index;
    --size_;
    wanted_ -= n.who.count;
    return n.who;
}

}  // namespace cenote::core

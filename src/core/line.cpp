// The line of waiters: the parts that are not on the hand-over path.
#include "core/line.hpp"

#include <algorithm>

namespace cenote::core {

void line::grow() {
    std::size_t old = nodes_.size();
    std::size_t grown = std::max<std::size_t>(16, old * 2);
    heap_.reserve(grown);
    nodes_.resize(grown);
    for (std::size_t i = grown; i-- > old;) {
        nodes_[i].next = free_;
        free_ = static_cast<std::uint32_t>(i);
    }
}

bool line::has(waiter_id id) const {
    return id.index() < nodes_.size() && nodes_[id.index()].in_line &&
           nodes_[id.index()].generation == id.generation();
}

bool line::has_thread(std::uint64_t holder) const {
    return std::any_of(nodes_.begin(), nodes_.end(),
                       [&](const node& n) { return n.in_line && n.who.holder == holder; });
}

const waiter& line::at(waiter_id id) const {
    ensure(has(id), "the waiter is in line");
    return nodes_[id.index()].who;
}

waiter line::leave(waiter_id id) {
    ensure(has(id), "who leaves is in line");
    return take_out(id.index());
}

const waiter& line::take_out(std::uint32_t index) {
    node& n = get(index);
    queue& q = queue_of(n.who);
    (n.previous == none ? q.head : get(n.previous).next) = n.next;
    (n.next == none ? q.tail : get(n.next).previous) = n.previous;
    if (q.head == none) ranks_ &= ~mark_of(n.who);
    forget_deadline(q, index);
    if (index == head_) head_ = find_head();
    return let_go(index);
}

/// The arrival time, later by the head start of each higher priority.
instant line::turn(const waiter& w) const {
    if (w.rank == priority::reserved) return long_ago;
    auto behind = static_cast<std::int64_t>(w.rank) - static_cast<std::int64_t>(priority::high);
    return after(w.arrived, head_start_ * behind);
}

bool line::before(std::uint32_t a, std::uint32_t b) const {
    const waiter& x = get(a).who;
    const waiter& y = get(b).who;
    if (x.rank == y.rank) return x.ticket < y.ticket;
    instant turn_x = turn(x);
    instant turn_y = turn(y);
    return turn_x != turn_y ? turn_x < turn_y : x.ticket < y.ticket;
}

std::uint32_t line::find_head() const {
    std::uint32_t found = none;
    for (const queue& q : queues_)
        if (q.head != none && (found == none || before(q.head, found))) found = q.head;
    return found;
}

/// Inserts a waiter at its place in its queue.
waiter_id line::insert(std::uint32_t index) {
    node& n = get(index);
    queue& q = queue_of(n.who);
    std::uint32_t behind = q.tail;
    while (behind != none && get(behind).who.ticket > n.who.ticket) behind = get(behind).previous;
    n.previous = behind;
    n.next = behind == none ? q.head : get(behind).next;
    (behind == none ? q.head : get(behind).next) = index;
    (n.next == none ? q.tail : get(n.next).previous) = index;
    ranks_ |= mark_of(n.who);
    if (head_ == none || (q.head == index && before(index, head_))) head_ = index;
    note_deadline(q, index);
    return id_of(index);
}

void line::note_deadline(queue& q, std::uint32_t index) {
    node& n = get(index);
    instant at = n.who.deadline;
    n.deadline = timing::none;
    if (at == never) return;
    earliest_ = std::min(earliest_, at);
    if (at < q.latest || n.next != none) {
        n.deadline = timing::in_heap;
        return heap_.add(index, at, n.who.ticket);
    }
    n.deadline = timing::in_order;
    q.latest = at;
    if (q.timed == none) q.timed = index;
}

void line::forget_deadline(queue& q, std::uint32_t index) {
    const node& n = get(index);
    if (n.deadline == timing::in_heap) heap_.remove(index);
    if (q.timed == index) return find_timed(q, n.next);
    if (n.who.deadline == earliest_) earliest_ = find_earliest();
}

/// Finds the next deadline in order. The search goes on from the last one, so each waiter is passed
/// once at most.
void line::find_timed(queue& q, std::uint32_t from) {
    while (from != none && get(from).deadline != timing::in_order) from = get(from).next;
    q.timed = from;
    if (from == none) q.latest = long_ago;
    earliest_ = find_earliest();
}

instant line::find_earliest() const {
    instant at = heap_.earliest();
    for (const queue& q : queues_)
        if (q.timed != none) at = std::min(at, get(q.timed).who.deadline);
    return at;
}

bool line::due_before(std::uint32_t a, std::uint32_t b) const {
    const waiter& x = get(a).who;
    const waiter& y = get(b).who;
    return x.deadline != y.deadline ? x.deadline < y.deadline : x.ticket < y.ticket;
}

waiter_id line::first_due() const {
    std::uint32_t found = heap_.empty() ? none : heap_.first();
    for (const queue& q : queues_)
        if (q.timed != none && (found == none || due_before(q.timed, found))) found = q.timed;
    return id_of(found);
}

waiter_id line::last() const {
    std::uint32_t found = none;
    for (const queue& q : queues_)
        if (q.tail != none && (found == none || before(found, q.tail))) found = q.tail;
    return id_of(found);
}

waiter_id line::who_wants_more_than(std::size_t count) const {
    for (const queue& q : queues_)
        for (std::uint32_t i = q.head; i != none; i = nodes_[i].next)
            if (nodes_[i].who.count > count) return id_of(i);
    return {};
}

waiter_id line::oldest() const {
    std::uint32_t found = none;
    for (priority rank : {priority::high, priority::normal, priority::low}) {
        std::uint32_t head = queues_[static_cast<std::size_t>(rank)].head;
        bool older =
            head != none && (found == none || nodes_[head].who.ticket < nodes_[found].who.ticket);
        if (older) found = head;
    }
    return found == none ? waiter_id{} : id_of(found);
}

void line::check_queue(std::size_t rank, std::size_t& count, std::size_t& heaped,
                       instant& earliest) const {
    const queue& q = queues_[rank];
    ensure((q.head != none) == ((ranks_ >> rank & 1) != 0), "the queues in use are marked");
    std::uint64_t last = 0;
    std::uint32_t before_it = none;
    std::uint32_t timed = none;
    instant latest = long_ago;
    for (std::uint32_t i = q.head; i != none; before_it = i, i = nodes_[i].next) {
        const node& n = nodes_[i];
        ensure(n.in_line, "every waiter between head and tail is in line");
        ensure(n.previous == before_it, "the queues are linked both ways");
        ensure(last < n.who.ticket, "tickets rise along each queue");
        ensure(i == head_ || !before(i, head_), "no turn comes before that of the head");
        ensure((n.deadline == timing::none) == (n.who.deadline == never),
               "exactly the waiters with a deadline are timed");
        last = n.who.ticket;
        earliest = std::min(earliest, n.who.deadline);
        heaped += n.deadline == timing::in_heap;
        ++count;
        if (n.deadline != timing::in_order) continue;
        ensure(latest <= n.who.deadline, "deadlines in order do not fall");
        latest = n.who.deadline;
        if (timed == none) timed = i;
    }
    ensure(q.tail == before_it, "a queue ends at its tail");
    ensure(q.timed == timed, "a queue knows the first of its deadlines in order");
    ensure(timed == none ? q.latest == long_ago : latest <= q.latest,
           "a queue knows which deadline would be in order");
}

void line::check() const {
    std::size_t count = 0;
    std::size_t heaped = 0;
    instant earliest = never;
    for (std::size_t rank = 0; rank < queues_.size(); ++rank)
        check_queue(rank, count, heaped, earliest);
    std::size_t wanted = 0;
    for (const node& n : nodes_) wanted += n.in_line ? n.who.count : 0;
    ensure(wanted == wanted_, "the wanted resources are counted");
    ensure(count == size(), "the line holds as many as were counted");
    ensure((count == 0) == empty(), "a line has a head");
    ensure(heaped == heap_.size(), "the heap holds the deadlines that are not in order");
    ensure(earliest == earliest_, "the earliest deadline is known");
    heap_.check();
}

}  // namespace cenote::core

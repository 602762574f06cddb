// The line of waiters.
#include "core/line.hpp"

#include <algorithm>

#include "core/ensure.hpp"

namespace cenote::core {

void line::grow() {
    std::size_t old = nodes_.size();
    std::size_t grown = std::max<std::size_t>(16, old * 2);
    deadlines_.reserve(grown);
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

waiter& line::at(waiter_id id) {
    ensure(has(id), "the waiter is in line");
    return nodes_[id.index()].who;
}

const waiter& line::at(waiter_id id) const {
    ensure(has(id), "the waiter is in line");
    return nodes_[id.index()].who;
}

waiter line::leave(waiter_id id) {
    ensure(has(id), "who leaves is in line");
    return take_out(id.index());
}

waiter_id line::first_due() const { return id_of(deadlines_.first()); }

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

void line::check_queue(const queue& q, std::size_t& count, std::size_t& timed) const {
    std::uint64_t last = 0;
    for (std::uint32_t i = q.head; i != none; i = nodes_[i].next) {
        ensure(nodes_[i].in_line, "everybody between head and tail is in line");
        ensure(last < nodes_[i].who.ticket, "tickets rise along each queue");
        ensure(i == head_ || !before(i, head_), "nobody's turn comes before that of the head");
        last = nodes_[i].who.ticket;
        ++count;
        timed += nodes_[i].who.deadline != never;
    }
}

void line::check() const {
    std::size_t count = 0;
    std::size_t timed = 0;
    for (const queue& q : queues_) check_queue(q, count, timed);
    std::size_t wanted = 0;
    for (const node& n : nodes_) wanted += n.in_line ? n.who.count : 0;
    ensure(wanted == wanted_, "what they want is counted");
    ensure(count == size(), "the line holds as many as were counted");
    ensure((head_ == none) == empty(), "a line has a head");
    ensure(timed == deadlines_.size(), "exactly those who wait for a while have a deadline");
    deadlines_.check();
}

}  // namespace cenote::core

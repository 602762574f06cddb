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

waiter& line::at(waiter_id id) {
    ensure(has(id), "the waiter is in line");
    return nodes_[id.index()].who;
}

waiter line::leave(waiter_id id) {
    ensure(has(id), "who leaves is in line");
    return take_out(id.index());
}

waiter_id line::first_due() const { return id_of(deadlines_.first()); }

void line::check() const {
    std::size_t count = 0;
    std::size_t timed = 0;
    std::uint64_t last = 0;
    for (std::uint32_t i = head_; i != none; i = nodes_[i].next) {
        ensure(nodes_[i].in_line, "everybody between head and tail is in line");
        ensure(count == 0 || nodes_[i].who.ticket > last, "tickets rise along the line");
        last = nodes_[i].who.ticket;
        ++count;
        timed += nodes_[i].who.deadline != never;
    }
    ensure(count == size(), "the line holds as many as were counted");
    ensure(timed == deadlines_.size(), "exactly those who wait for a while have a deadline");
    deadlines_.check();
}

}  // namespace cenote::core

// Deadlines: a sorted list for the usual case, a heap for the rest.
#include "core/deadlines.hpp"

#include <algorithm>

#include "core/ensure.hpp"
#include "core/fault.hpp"

namespace cenote::core {

namespace {
constexpr std::size_t arity = 4;
}

void deadlines::reserve(std::size_t count) {
    if (count <= nodes_.size()) return;
    heap_.reserve(count);
    nodes_.resize(count);
}

void deadlines::add_to_heap(id entry) {
    nodes_[entry].place = where::heap;
    heap_.push_back({nodes_[entry].at, entry});  // reserved
    sift_up(heap_.size() - 1);
}

void deadlines::remove_from_heap(std::size_t position) {
    leaf moved = heap_.back();
    heap_.pop_back();
    if (position == heap_.size()) return;
    heap_[position] = moved;
    if (planted(fault::removed_deadline_breaks_the_heap)) put(position, moved);
    else sift_up(position);
    sift_down(nodes_[moved.entry].previous);
}

bool deadlines::before(const leaf& a, const leaf& b) {
    // Equal times are ordered by number, so that the order never depends on history.
    return a.at != b.at ? a.at < b.at : a.entry < b.entry;
}

void deadlines::put(std::size_t position, const leaf& l) {
    heap_[position] = l;
    nodes_[l.entry].previous = static_cast<id>(position);
}

void deadlines::sift_up(std::size_t position) {
    leaf entry = heap_[position];
    while (position > 0) {
        std::size_t parent = (position - 1) / arity;
        if (!before(entry, heap_[parent])) break;
        put(position, heap_[parent]);
        position = parent;
    }
    put(position, entry);
}

void deadlines::sift_down(std::size_t position) {
    leaf entry = heap_[position];
    for (;;) {
        std::size_t first = position * arity + 1;
        std::size_t last = std::min(first + arity, heap_.size());
        std::size_t best = first;
        for (std::size_t child = first; child < last; ++child)
            if (before(heap_[child], heap_[best])) best = child;
        if (first >= last || !before(heap_[best], entry)) break;
        put(position, heap_[best]);
        position = best;
    }
    put(position, entry);
}

void deadlines::check() const {
    std::size_t listed = 0;
    instant last = long_ago;
    for (id i = head_; i != none; i = nodes_[i].next) {
        ensure(nodes_[i].place == where::list, "a listed entry knows its place");
        ensure(last <= nodes_[i].at, "the list is sorted");
        last = nodes_[i].at;
        ++listed;
    }
    ensure(listed == listed_, "the list holds what was counted");
    ensure(earliest_ == (size() == 0 ? never : nodes_[first()].at), "the earliest is known");
    for (std::size_t i = 0; i < heap_.size(); ++i) {
        const node& n = nodes_[heap_[i].entry];
        ensure(n.place == where::heap && n.at == heap_[i].at, "a heaped entry knows its place");
        ensure(n.previous == i, "a heaped entry knows its position");
        ensure(i == 0 || !before(heap_[i], heap_[(i - 1) / arity]), "a parent is not later");
    }
}

}  // namespace cenote::core

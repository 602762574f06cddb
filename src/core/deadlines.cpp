// The heap of deadlines.
#include "core/deadlines.hpp"

#include <algorithm>

#include "core/ensure.hpp"

namespace cenote::core {

namespace {
constexpr std::size_t arity = 4;
}

void deadlines::reserve(std::size_t count) {
    if (count <= positions_.size()) return;
    heap_.reserve(count);
    positions_.resize(count, none);
}

void deadlines::add(id entry, instant at, std::uint64_t tie) {
    ensure(positions_[entry] == none, "an entry has one deadline");
    if (at == never) return;
    heap_.push_back({at, tie, entry});  // reserved
    sift_up(heap_.size() - 1);
}

void deadlines::remove(id entry) {
    std::size_t position = positions_[entry];
    if (position == none) return;
    positions_[entry] = none;
    leaf moved = heap_.back();
    heap_.pop_back();
    if (position == heap_.size()) return;
    heap_[position] = moved;
    sift_up(position);
    sift_down(positions_[moved.entry]);
}

void deadlines::put(std::size_t position, const leaf& l) {
    heap_[position] = l;
    positions_[l.entry] = static_cast<id>(position);
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
    for (std::size_t i = 0; i < heap_.size(); ++i) {
        ensure(positions_[heap_[i].entry] == i, "a heaped entry knows its position");
        ensure(i == 0 || !before(heap_[i], heap_[(i - 1) / arity]), "a parent is not later");
    }
    auto placed = std::count_if(positions_.begin(), positions_.end(),
                                [](id position) { return position != none; });
    ensure(static_cast<std::size_t>(placed) == heap_.size(), "only heaped entries have a position");
}

}  // namespace cenote::core

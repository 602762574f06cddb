// Which of many deadlines comes first. Entries are small integers; each has at most one deadline.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ensure.hpp"
#include "core/instant.hpp"

namespace cenote::core {

/// Deadlines that arrive in rising order, as equal timeouts make them, are kept in a list: adding
/// and removing is O(1). Only those that arrive out of order go to a four-way heap, O(log n).
///
/// Invariants:
/// 1. The list is sorted by time; its links and the heap's positions are the entries' own.
/// 2. An entry is in the list, in the heap, or nowhere.
class deadlines {
public:
    using id = std::uint32_t;

    /// Makes room for entries below `count`. Throws std::bad_alloc; after it nothing else does.
    void reserve(std::size_t count);

    /// Sets the deadline of an entry that has none; `never` leaves it without one.
    void add(id entry, instant at);

    /// Forgets an entry's deadline, if it has one.
    void remove(id entry);

    /// The earliest deadline, `never` if there is none.
    instant earliest() const { return earliest_; }

    /// The entry whose deadline is earliest(). Requires that there is one. Among equals the list
    /// goes before the heap, so the answer is the same on every machine.
    id first() const {
        if (heap_.empty()) return head_;
        const leaf& top = heap_.front();
        return head_ == none || top.at < nodes_[head_].at ? top.entry : head_;
    }

    /// How many entries have a deadline.
    std::size_t size() const { return listed_ + heap_.size(); }

    /// Aborts if an invariant is broken.
    void check() const;

private:
    static constexpr id none = ~id{0};
    enum class where : std::uint8_t { nowhere, list, heap };
    struct node {
        instant at{};
        id previous = none;  // in the list; in the heap: its position there
        id next = none;
        where place = where::nowhere;
    };

    void find_earliest() { earliest_ = size() == 0 ? never : nodes_[first()].at; }
    /// In the heap with its time beside it: comparing two must not cost a visit to each.
    struct leaf {
        instant at{};
        id entry = none;

        bool operator==(const leaf&) const = default;
    };

    void add_to_heap(id entry);
    void remove_from_heap(std::size_t position);
    void sift_up(std::size_t position);
    void sift_down(std::size_t position);
    void put(std::size_t position, const leaf& l);
    static bool before(const leaf& a, const leaf& b);

    std::vector<node> nodes_;
    std::vector<leaf> heap_;
    id head_ = none;
    id tail_ = none;
    std::size_t listed_ = 0;
    instant earliest_ = never;
};

// Inline, because everybody who waits comes through here.

inline void deadlines::add(id entry, instant at) {
    node& n = nodes_[entry];
    ensure(n.place == where::nowhere, "an entry has one deadline");
    if (at == never) return;
    n.at = at;
    if (tail_ == none || nodes_[tail_].at <= at) {
        n.place = where::list;
        n.previous = tail_;
        n.next = none;
        (tail_ == none ? head_ : nodes_[tail_].next) = entry;
        tail_ = entry;
        ++listed_;
    } else {
        add_to_heap(entry);
    }
    earliest_ = std::min(earliest_, at);
}

inline void deadlines::remove(id entry) {
    node& n = nodes_[entry];
    if (n.place == where::nowhere) return;
    if (n.place == where::list) {
        (n.previous == none ? head_ : nodes_[n.previous].next) = n.next;
        (n.next == none ? tail_ : nodes_[n.next].previous) = n.previous;
        --listed_;
    } else {
        remove_from_heap(n.previous);
    }
    n.place = where::nowhere;
    if (n.at == earliest_) find_earliest();
}

}  // namespace cenote::core

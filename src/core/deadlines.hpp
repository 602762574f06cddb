// Finds the earliest of many deadlines. Entries are small integers; each has at most one deadline.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/instant.hpp"

namespace cenote::core {

/// A four-way heap: adding deadlines in rising order is O(1), everything else O(log n). Of equal
/// deadlines the one with the smaller tie comes first, so the order never depends on how they are
/// stored. Requires that no two entries have the same tie.
///
/// Invariant: every entry in the heap knows its position; all others have none.
class deadlines {
public:
    using id = std::uint32_t;

    /// Makes room for entries below `count`. Only this throws std::bad_alloc.
    void reserve(std::size_t count);

    /// Sets the deadline of an entry without one; `never` leaves it without one.
    void add(id entry, instant at, std::uint64_t tie);
    void add(id entry, instant at) { add(entry, at, entry); }

    /// Removes the deadline of an entry, if it has one.
    void remove(id entry);

    /// The earliest deadline, `never` if there is none.
    instant earliest() const { return heap_.empty() ? never : heap_.front().at; }

    /// The entry whose deadline is earliest(). Requires that there is one.
    id first() const { return heap_.front().entry; }

    /// The number of entries with a deadline.
    std::size_t size() const { return heap_.size(); }
    bool empty() const { return heap_.empty(); }

    /// Asserts the invariant.
    void check() const;

private:
    static constexpr id none = ~id{0};

    /// Has the time in it, so that a comparison reads one place.
    struct leaf {
        instant at{};
        std::uint64_t tie = 0;
        id entry = none;
    };

    void sift_up(std::size_t position);
    void sift_down(std::size_t position);
    void put(std::size_t position, const leaf& l);
    static bool before(const leaf& a, const leaf& b) {
        return a.at != b.at ? a.at < b.at : a.tie < b.tie;
    }

    std::vector<leaf> heap_;
    std::vector<id> positions_;  // of each entry in the heap, or none
};

}  // namespace cenote::core

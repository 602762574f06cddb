// The line of waiters: who came first, and whose deadline comes first.
#pragma once

#include <cstdint>
#include <vector>

#include "core/deadlines.hpp"
#include "core/instant.hpp"
#include "core/tally.hpp"

namespace cenote::core {

/// Names a waiter. Goes stale when the waiter leaves the line; a stale one is recognised.
struct waiter_id {
    std::uint32_t index = ~std::uint32_t{0};
    std::uint32_t generation = 0;

    bool operator==(const waiter_id&) const = default;
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
    void make_room();

    /// Adds a waiter behind the last one whose ticket is smaller. Requires make_room() before.
    waiter_id join(const waiter& who);

    /// Whether `id` is in the line.
    bool has(waiter_id id) const;

    waiter& at(waiter_id id);
    /// Whoever is served next. Requires that somebody waits.
    const waiter& first() const { return nodes_[head_].who; }
    waiter_id head() const { return id_of(head_); }
    /// Takes the head out and returns what was known about it.
    waiter leave_first();

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
    waiter take_out(std::uint32_t index);

    std::vector<node> nodes_;
    deadlines deadlines_;
    std::uint32_t head_ = none;
    std::uint32_t tail_ = none;
    std::uint32_t free_ = none;
    tally size_;
};

}  // namespace cenote::core

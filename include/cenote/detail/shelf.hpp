// The fast lane: a hot resource goes from one borrower to the next with one atomic exchange each
// way.
//
// One cell per processor, each on its own cache line. To the machine a resource in a cell is simply
// still leased. The rules that make this safe (tests/shell/lane_model_test.cpp runs every
// interleaving of them):
//
// 1. put() lays its item into an empty cell, then looks at `attention`. Whoever raises attention
//    first stores it, then empties every cell. All of these are sequentially consistent, so at
//    least one of the two sees the other: no resource stays behind in a cell while somebody waits.
// 2. take() looks at `attention` after its exchange, too. If it is raised, what was taken belongs
// to
//    somebody who came before and must be handed in.
// 3. Attention is raised and lowered, and cells are collected, under the keeper's lock only.
// 4. What owes a reset is put here only once takes_debts() is true, and that stays so: from then on
//    sweeps come in time for it, whenever it is put.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cenote::detail {

/// Why the fast lane is shut. Several reasons can hold at once.
enum attention : std::uint32_t {
    somebody_waits = 1,
    pool_closed = 2,
    sweeper_asleep = 4,  // the next release wakes the sweeper by going through the keeper
    lane_off = 8,        // the pool's options do not allow the fast lane
    recalling = 16,      // leases from before the last retire_all are still out
    pool_paused = 32,
    circuit_open = 64,  // the circuit breaker is not active
    no_maintenance = 128,
};

/// The real thing; the model checker brings its own.
struct real_sync {
    template <class T>
    using atomic = std::atomic<T>;
};

template <class Item, class Sync = real_sync>
class basic_shelf {
public:
    /// Room for `count` cells, rounded up to a power of two. Starts with `reasons` raised.
    basic_shelf(std::size_t count, std::uint32_t reasons)
        : mask_(std::bit_ceil(count) - 1), cells_(new cell[mask_ + 1]), attention_(reasons) {}

    std::size_t size() const { return mask_ + 1; }

    /// What lies in the cell of processor `where`; null if there is nothing. If `must_hand_in` is
    /// set, the item is not the caller's: it must go to the keeper.
    Item* take(std::size_t where, bool& must_hand_in) {
        Item* found = at(where & mask_).held.exchange(nullptr);
        must_hand_in = found != nullptr && attention_.load() != 0;
        return found;
    }

    /// Lays an item into the cell of processor `where`. Returns what must go to the keeper instead:
    /// null, or an item (usually this one; another that lay there in its place is as good).
    Item* put(std::size_t where, Item* item) {
        if (attention_.load() != 0) return item;
        auto& held = at(where & mask_).held;
        Item* empty = nullptr;
        if (!held.compare_exchange_strong(empty, item)) return item;
        return attention_.load() == 0 ? nullptr : held.exchange(nullptr);  // rule 1
    }

    /// Whether what owes a reset may be put here.
    bool takes_debts() const { return takes_debts_.load(); }

    // Under the keeper's lock.

    void take_debts() { takes_debts_.store(true); }
    void raise(std::uint32_t reason) {
        if ((attention_.load() & reason) == 0) attention_.fetch_or(reason);
    }
    void lower(std::uint32_t reason) {
        if ((attention_.load() & reason) != 0) attention_.fetch_and(~reason);
    }
    std::uint32_t raised() const { return attention_.load(); }

    /// Empties a cell.
    Item* collect(std::size_t index) {
        auto& held = at(index).held;
        return held.load() == nullptr ? nullptr : held.exchange(nullptr);
    }

    /// Lays an item back into an empty cell; false if something else lies there.
    bool restore(std::size_t index, Item* item) {
        Item* empty = nullptr;
        return at(index).held.compare_exchange_strong(empty, item);
    }

private:
    struct alignas(64) cell {
        typename Sync::template atomic<Item*> held{nullptr};
    };

    /// Without the check that a hardened library makes: the mask is one.
    cell& at(std::size_t index) { return cells_.get()[index]; }

    std::size_t mask_;
    std::unique_ptr<cell[]> cells_;
    alignas(64) typename Sync::template atomic<std::uint32_t> attention_;
    typename Sync::template atomic<bool> takes_debts_{false};
};

}  // namespace cenote::detail

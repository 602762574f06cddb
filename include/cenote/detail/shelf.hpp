// The shelf: cells in which hot resources go from one borrower to the next with one atomic exchange
// each way, without the keeper's lock.
//
// There is one cell per processor, each on its own cache line. To the machine, a resource in a cell
// is still leased. A pointer is in one cell or with one holder and moves by exchange, so no
// resource is lent twice. What could go wrong is a resource that stays in a cell while a waiter is
// owed it. Four rules exclude that:
//
// 1. put() stores its item in an empty cell and then reads `attention`. A thread that shuts the
//    lane raises a bit of `attention` and then empties every cell. These operations are
//    sequentially consistent, so at least one of the two threads sees the other's store: put()
//    takes its item out again, or the other thread finds the item in the cell.
// 2. take() reads `attention` after its exchange. If a bit is raised, the item may belong to a
//    waiter that came earlier, so take() tells its caller to return it to the keeper.
// 3. raise(), lower(), collect() and restore() require the keeper's lock.
// 4. A resource that owes a reset is put here only once accepts_owing() is true. That never becomes
//    false again: from then on sweeps come in time for such a resource, whenever it is put.
//
// The model checker (tests/shell/lane_model_test.cpp) runs this class in every interleaving of a
// few threads, and must find each flaw that lane_flaws.py plants in it.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cenote::detail {

/// The reasons why the fast lane is shut. Several can be raised at once.
enum attention : std::uint32_t {
    waiter_owed = 1,  // a waiter is owed the next resource
    pool_closed = 2,
    sweeper_asleep = 4,  // the next release wakes the sweeper by going through the keeper
    lane_off = 8,        // the pool's options do not allow the fast lane
    recalling = 16,      // leases from before the last recall are still out
    pool_paused = 32,
    circuit_open = 64,  // the circuit breaker is not active
    no_maintenance = 128,
};

/// The atomics of the real shelf. The model checker has others.
struct real_sync {
    template <class T>
    using atomic = std::atomic<T>;
};

template <class Item, class Sync = real_sync>
class basic_shelf {
public:
    /// `count` is rounded up to a power of two. The bits in `reasons` are raised.
    basic_shelf(std::size_t count, std::uint32_t reasons)
        : mask_(std::bit_ceil(count) - 1), cells_(new cell[mask_ + 1]), attention_(reasons) {}

    std::size_t size() const { return mask_ + 1; }

    // Without the lock. `where` is a processor's number.

    /// Empties a cell; null if it was empty. If `must_return` is set, the caller must give the item
    /// to the keeper (rule 2).
    Item* take(std::size_t where, bool& must_return) {
        Item* found = item_at(where & mask_).exchange(nullptr);
        must_return = found != nullptr && attention_.load() != 0;
        return found;
    }

    /// Stores an item in a cell. Returns the item that the caller must give to the keeper: null, or
    /// usually `item` itself. It is another one if a second thread stored that one in between;
    /// either will do.
    Item* put(std::size_t where, Item* item) {
        if (attention_.load() != 0) return item;
        auto& place = item_at(where & mask_);
        Item* empty = nullptr;
        if (!place.compare_exchange_strong(empty, item)) return item;
        return attention_.load() == 0 ? nullptr : place.exchange(nullptr);  // rule 1
    }

    /// Whether a resource that owes a reset may be put here (rule 4).
    bool accepts_owing() const { return accepts_owing_.load(); }

    // Under the keeper's lock.

    void accept_owing() { accepts_owing_.store(true); }
    void raise(std::uint32_t reason) {
        if ((attention_.load() & reason) == 0) attention_.fetch_or(reason);
    }
    void lower(std::uint32_t reason) {
        if ((attention_.load() & reason) != 0) attention_.fetch_and(~reason);
    }
    std::uint32_t raised() const { return attention_.load(); }

    /// Empties the cell with this index; null if it was empty.
    Item* collect(std::size_t index) {
        auto& place = item_at(index);
        return place.load() == nullptr ? nullptr : place.exchange(nullptr);
    }

    /// Stores an item in the cell with this index. False: another item is there.
    bool restore(std::size_t index, Item* item) {
        Item* empty = nullptr;
        return item_at(index).compare_exchange_strong(empty, item);
    }

private:
    using atomic_item = typename Sync::template atomic<Item*>;
    struct alignas(64) cell {
        atomic_item item{nullptr};
    };

    /// get() avoids the bounds check of a hardened standard library; the mask is the check.
    atomic_item& item_at(std::size_t index) { return cells_.get()[index].item; }

    std::size_t mask_;
    std::unique_ptr<cell[]> cells_;
    alignas(64) typename Sync::template atomic<std::uint32_t> attention_;
    typename Sync::template atomic<bool> accepts_owing_{false};
};

}  // namespace cenote::detail

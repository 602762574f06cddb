// Cells: where the leases of the C API are stored, and how lease handles are validated.
//
// Every open resource has a cell while it is open. The cell's word contains a generation, which
// counts the leases, and whether the resource is leased. A lease handle is the cell's index and the
// generation. The thread that acquires a resource owns its cell and publishes the word with a
// store. The thread that ends a lease clears the word with an exchange, which only one thread can
// win; it then owns the lease in the cell, and all others get CENOTE_STALE_HANDLE.
//
// Cells are reused and never freed, so that a stale handle can always be looked up.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "c/blocks.hpp"
#include "c/handle.hpp"
#include "cenote/cenote.h"
#include "cenote/lease.hpp"

namespace cenote::c {

class cell;
class pool_entry;

/// Returns a cell to the free list.
struct cell_deleter {
    void operator()(cell* unused) const noexcept;
};
using cell_owner = std::unique_ptr<cell, cell_deleter>;

/// What a pool of the C API lends.
struct item {
    void* resource;
    cell_owner place;
};

class alignas(64) cell {
public:
    /// A cell for `resource`. Throws std::bad_alloc, also at the maximum number of cells.
    static cell_owner allocate(const pool_entry* of, void* resource);
    /// The cell of a lease handle; null if there never was such a handle.
    static cell* find(cenote_lease number) noexcept {
        handle h = handle::of(number);
        return h.what == kind::lease ? table.find(h.index) : nullptr;
    }
    /// Ends all leases of a pool and detaches their resources. Returns how many.
    static std::size_t end_all(const pool_entry* of) noexcept;

    /// Which thread holds the lease.
    enum class holder : bool { unknown, this_thread };

    /// Stores a lease in the cell of its item, and returns its handle.
    static cenote_lease store(lease<item> l, holder who) noexcept {
        cell& at = *l->place;
        std::uint64_t generation = (at.word_.load(std::memory_order_relaxed) >> flag_bits) + 1;
        at.lease_ = std::move(l);
        if (who == holder::this_thread) detail::lease_maker::hold_here(at.lease_);
        at.word_.store(generation << flag_bits | leased, std::memory_order_release);
        return handle{kind::lease, generation, at.index_}.number();
    }

    /// Takes the lease out, marked dirty if mark_dirty() was called. Empty: see `code`.
    lease<item> end(std::uint64_t generation, cenote_code& code) noexcept {
        std::uint64_t seen = generation << flag_bits | leased;
        if (!word_.compare_exchange_strong(seen, generation << flag_bits, std::memory_order_acquire,
                                           std::memory_order_relaxed)) [[unlikely]]
            return end_dirty(seen, generation, code);
        code = CENOTE_OK;
        return std::move(lease_);
    }
    /// Whether this is a cell's last generation. Handles are never reused, so the resource must be
    /// discarded when its lease ends, and the cell is not used again.
    static constexpr bool is_last(std::uint64_t generation) noexcept {
        return generation == handle::generation_max;
    }
    cenote_code mark_dirty(std::uint64_t generation) noexcept;
    cenote_code resource(std::uint64_t generation, void** into) const noexcept;

private:
    friend struct cell_deleter;

    // The word: a generation and these flags. No flag: not leased.
    static constexpr std::uint64_t leased = 1;
    static constexpr std::uint64_t dirty = 2;
    static constexpr int flag_bits = 2;

    /// Whether `generation` is the present lease.
    static cenote_code check(std::uint64_t word, std::uint64_t generation) noexcept {
        std::uint64_t present = word >> flag_bits;
        if (generation == 0 || generation > present) return CENOTE_INVALID_HANDLE;
        return generation == present && (word & leased) != 0 ? CENOTE_OK : CENOTE_STALE_HANDLE;
    }
    lease<item> end_dirty(std::uint64_t seen, std::uint64_t generation, cenote_code& code) noexcept;

    static constexpr std::size_t block_size = 256;
    static constinit blocks<cell, block_size, (handle::index_max + 1) / block_size> table;
    static constinit cell* free_list;  // guarded by api_mutex()

    std::atomic<std::uint64_t> word_{0};
    std::atomic<void*> resource_{nullptr};
    std::atomic<const pool_entry*> of_{nullptr};  // null: not in use
    lease<item> lease_;  // owned by the thread that sets or clears `leased`
    std::size_t index_ = 0;
    cell* next_ = nullptr;  // in the free list
};

}  // namespace cenote::c

// Where leases are kept whose holders have nothing but a number, and what becomes of those numbers.
//
// Every open resource has a cell, for as long as it is open. The cell's word says whether the
// resource is leased and for which time (its generation), and a lease's handle is the cell's index
// with that generation. Who acquires has the resource, hence the cell, to himself, and publishes
// the word with a store. Who ends a lease takes the word away with an exchange that only one can
// win: from then on the lease in the cell is his, and everybody else comes too late.
//
// Cells are used again, and never freed: a stale handle may always be looked up.
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
class host;

/// Gives a cell back to the others.
struct cell_returner {
    void operator()(cell* used) const noexcept;
};
using cell_owner = std::unique_ptr<cell, cell_returner>;

/// What a pool of C lends.
struct item {
    void* resource;
    cell_owner place;
};

class alignas(64) cell {
public:
    /// A cell for `resource`, of a pool. Throws std::bad_alloc, also if there are too many.
    static cell_owner take(const host* of, void* resource);
    /// Null: there never was such a handle.
    static cell* find(cenote_lease number) noexcept {
        handle h = handle::of(number);
        return h.what == kind::lease ? all.find(h.index) : nullptr;
    }
    /// Takes all leases away from the holders of a pool's resources, which stay theirs. Returns how
    /// many there were.
    static std::size_t end_all(const host* of) noexcept;

    /// Which thread holds the lease.
    enum class holder : bool { unknown, this_thread };

    /// Keeps a lease in the cell of its item.
    static cenote_lease keep(lease<item> l, holder who) noexcept {
        cell& at = *l->place;
        std::uint64_t generation = (at.word_.load(std::memory_order_relaxed) >> flags) + 1;
        at.held_ = std::move(l);
        if (who == holder::this_thread) detail::lease_maker::hold_here(at.held_);
        at.word_.store(generation << flags | leased, std::memory_order_release);
        return handle{kind::lease, generation, at.index_}.number();
    }

    /// Ends the lease and takes it out; empty: `code` says why not. If it was marked dirty, the
    /// lease is.
    lease<item> end(std::uint64_t generation, cenote_code& code) noexcept {
        std::uint64_t seen = generation << flags | leased;
        // Dirty or not, one of the two it must be.
        if (!word_.compare_exchange_strong(seen, generation << flags, std::memory_order_acquire,
                                           std::memory_order_relaxed)) [[unlikely]]
            return end_marked(seen, generation, code);
        code = CENOTE_OK;
        return std::move(held_);
    }
    /// No handle may come again: a cell whose generations are used up is not used any more, hence
    /// neither is its resource, when this lease ends.
    static constexpr bool is_last(std::uint64_t generation) noexcept {
        return generation == handle::generation_max;
    }
    cenote_code mark_dirty(std::uint64_t generation) noexcept;
    cenote_code resource(std::uint64_t generation, void** into) const noexcept;

private:
    friend struct cell_returner;

    // The word: a generation and these. Without a flag nobody has a lease.
    static constexpr std::uint64_t leased = 1;
    static constexpr std::uint64_t dirty = 2;
    static constexpr int flags = 2;

    static cenote_code judge(std::uint64_t word, std::uint64_t generation) noexcept {
        std::uint64_t present = word >> flags;
        if (generation == 0 || generation > present) return CENOTE_INVALID_HANDLE;
        return generation == present && (word & leased) != 0 ? CENOTE_OK : CENOTE_STALE_HANDLE;
    }
    lease<item> end_marked(std::uint64_t seen, std::uint64_t generation,
                           cenote_code& code) noexcept;
    static constexpr std::size_t block_size = 256;
    static constinit blocks<cell, block_size, (handle::index_max + 1) / block_size> all;
    static constinit cell* spare;  // not in use; under the lock

    std::atomic<std::uint64_t> word_{0};
    std::atomic<void*> resource_{nullptr};
    std::atomic<const host*> of_{nullptr};  // null: not in use
    lease<item> held_;                      // whoever has set, or taken away, `leased`
    std::size_t index_ = 0;
    cell* next_ = nullptr;  // among those not in use
};

}  // namespace cenote::c

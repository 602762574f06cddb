// Cells: allocation, and the operations that are not inlined.
#include "c/cells.hpp"

#include <mutex>
#include <utility>

namespace cenote::c {

constinit blocks<cell, cell::block_size, (handle::index_max + 1) / cell::block_size> cell::table;
constinit cell* cell::free_list = nullptr;

cell_owner cell::allocate(const pool_entry* of, void* resource) {
    std::lock_guard lock(api_mutex());
    cell* fresh = free_list;
    if (fresh != nullptr) {
        free_list = fresh->next_;
    } else {
        std::size_t index = 0;
        fresh = &table.add(index);
        fresh->index_ = index;
    }
    fresh->resource_.store(resource, std::memory_order_release);
    fresh->of_.store(of, std::memory_order_release);
    return cell_owner(fresh);
}

void cell_deleter::operator()(cell* unused) const noexcept {
    unused->of_.store(nullptr, std::memory_order_relaxed);
    std::uint64_t generation = unused->word_.load(std::memory_order_relaxed) >> cell::flag_bits;
    if (cell::is_last(generation)) return;
    std::lock_guard lock(api_mutex());
    unused->next_ = std::exchange(cell::free_list, unused);
}

lease<item> cell::end_dirty(std::uint64_t seen, std::uint64_t generation,
                            cenote_code& code) noexcept {
    while ((code = check(seen, generation)) == CENOTE_OK) {
        if (!word_.compare_exchange_weak(seen, generation << flag_bits, std::memory_order_acquire,
                                         std::memory_order_relaxed))
            continue;
        if ((seen & dirty) != 0) lease_.mark_dirty();
        return std::move(lease_);
    }
    return {};
}

cenote_code cell::mark_dirty(std::uint64_t generation) noexcept {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    cenote_code code{};
    while ((code = check(seen, generation)) == CENOTE_OK)
        if (word_.compare_exchange_weak(seen, seen | dirty, std::memory_order_acq_rel,
                                        std::memory_order_relaxed))
            break;
    return code;
}

cenote_code cell::resource(std::uint64_t generation, void** into) const noexcept {
    cenote_code before = check(word_.load(std::memory_order_acquire), generation);
    if (before != CENOTE_OK) return before;
    void* found = resource_.load(std::memory_order_acquire);
    // If the lease has ended since, `found` may belong to another one.
    cenote_code after = check(word_.load(std::memory_order_acquire), generation);
    if (after == CENOTE_OK) *into = found;
    return after;
}

std::size_t cell::end_all(const pool_entry* of) noexcept {
    std::size_t ended = 0;
    for (std::size_t i = 0; cell* each = table.find(i); ++i) {
        std::uint64_t seen = each->word_.load(std::memory_order_acquire);
        // While the word is unchanged, so are the resource and its pool.
        if ((seen & leased) == 0 || each->of_.load(std::memory_order_acquire) != of) continue;
        cenote_code code{};
        lease<item> held = each->end(seen >> flag_bits, code);
        if (code != CENOTE_OK) continue;
        static_cast<void>(held.detach());
        ++ended;
    }
    return ended;
}

}  // namespace cenote::c

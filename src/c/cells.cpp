// Cells, taken and given back; and the ends of leases that take more than one exchange.
#include "c/cells.hpp"

#include <mutex>
#include <utility>

#include "c/lock.hpp"

namespace cenote::c {

constinit blocks<cell, cell::block_size, (handle::index_max + 1) / cell::block_size> cell::all;
constinit cell* cell::spare = nullptr;

cell_owner cell::take(const host* of, void* resource) {
    std::lock_guard lock(the_lock());
    cell* fresh = spare;
    if (fresh != nullptr) {
        spare = fresh->next_;
    } else {
        std::size_t index = 0;
        fresh = &all.add(index);
        fresh->index_ = index;
    }
    fresh->resource_.store(resource, std::memory_order_release);
    fresh->of_.store(of, std::memory_order_release);
    return cell_owner(fresh);
}

void cell_returner::operator()(cell* used) const noexcept {
    used->of_.store(nullptr, std::memory_order_relaxed);
    std::uint64_t generation = used->word_.load(std::memory_order_relaxed) >> cell::flags;
    if (cell::is_last(generation)) return;
    std::lock_guard lock(the_lock());
    used->next_ = std::exchange(cell::spare, used);
}

lease<item> cell::end_marked(std::uint64_t seen, std::uint64_t generation,
                             cenote_code& code) noexcept {
    while ((code = judge(seen, generation)) == CENOTE_OK) {
        if (!word_.compare_exchange_weak(seen, generation << flags, std::memory_order_acquire,
                                         std::memory_order_relaxed))
            continue;
        if ((seen & dirty) != 0) held_.mark_dirty();
        return std::move(held_);
    }
    return {};
}

cenote_code cell::mark_dirty(std::uint64_t generation) noexcept {
    std::uint64_t seen = word_.load(std::memory_order_relaxed);
    cenote_code code{};
    while ((code = judge(seen, generation)) == CENOTE_OK)
        if (word_.compare_exchange_weak(seen, seen | dirty, std::memory_order_acq_rel,
                                        std::memory_order_relaxed))
            break;
    return code;
}

cenote_code cell::resource(std::uint64_t generation, void** into) const noexcept {
    cenote_code before = judge(word_.load(std::memory_order_acquire), generation);
    if (before != CENOTE_OK) return before;
    void* found = resource_.load(std::memory_order_acquire);
    // If it has ended meanwhile, this may be the next one's.
    cenote_code after = judge(word_.load(std::memory_order_acquire), generation);
    if (after == CENOTE_OK) *into = found;
    return after;
}

std::size_t cell::end_all(const host* of) noexcept {
    std::size_t ended = 0;
    for (std::size_t i = 0; cell* each = all.find(i); ++i) {
        std::uint64_t seen = each->word_.load(std::memory_order_acquire);
        // As long as this word stands, the cell is that of one resource.
        if ((seen & leased) == 0 || each->of_.load(std::memory_order_acquire) != of) continue;
        cenote_code code{};
        lease<item> held = each->end(seen >> flags, code);
        if (code != CENOTE_OK) continue;
        static_cast<void>(held.detach());
        ++ended;
    }
    return ended;
}

}  // namespace cenote::c

// Subjects of measurements: the resource, cenote, and reference points without a pool.
#pragma once

#include <atomic>
#include <cstddef>

#include "cenote/pool.hpp"
#include "textbook_pool.hpp"

namespace cenote::bench {

/// Allocated on the heap by all subjects.
struct resource {
    int uses = 0;
};

inline resource open_resource() { return {}; }

/// On its own cache line, like any real resource; for peers that do not allocate resources one by
/// one.
struct alignas(64) padded_resource : resource {};

/// A cenote pool with all resources open.
struct cenote_pool {
    explicit cenote_pool(std::size_t size, options settings = {})
        : pool(open_resource, full(size, settings)) {}

    lease<resource> acquire() { return pool.acquire(); }

    cenote::pool<resource> pool;

    static options full(std::size_t size, options settings) {
        settings.name = "bench";
        settings.max = size;
        settings.min_size = size;
        settings.warm_up = warm_up::wait;
        return settings;
    }
};

/// One cycle: acquire, use, release.
template <class Pool>
void cycle(Pool& pool) {
    auto lease = pool.acquire();
    ++lease->uses;
}

/// Each thread has its own resource: the effect of the threads on each other without a pool.
struct no_pool {
    static resource* acquire() {
        static thread_local resource own;
        return &own;
    }
};

/// The least that a pool for several threads can cost: an atomic exchange each for acquire and
/// release, on two cache lines.
struct two_exchanges {
    struct alignas(64) line {
        std::atomic<resource*> slot{nullptr};
    };
    line from{};
    line to{};
    resource it{};
};

inline void cycle(two_exchanges& floor) {
    floor.from.slot.exchange(nullptr);
    ++floor.it.uses;
    floor.to.slot.exchange(&floor.it);
}

}  // namespace cenote::bench

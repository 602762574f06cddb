// What is measured: the same resource behind cenote, behind the textbook pool, and behind nothing.
#pragma once

#include <atomic>
#include <cstddef>

#include "cenote/pool.hpp"
#include "textbook_pool.hpp"

namespace cenote::bench {

/// On the heap with every subject.
struct thing {
    int uses = 0;
};

inline thing open_thing() { return {}; }

/// With peers that do not see to it themselves: on a cache line of its own, as anything worth
/// pooling would be.
struct alignas(64) lone_thing : thing {};

/// A cenote that has opened everything it may open.
struct cenote_pool {
    explicit cenote_pool(std::size_t size, options settings = {})
        : pool(open_thing, full(size, settings)) {}

    lease<thing> acquire() { return pool.acquire(); }

    cenote::pool<thing> pool;

    /// All of them open from the beginning.
    static options full(std::size_t size, options settings) {
        settings.name = "bench";
        settings.max = size;
        settings.min_size = size;
        settings.warm_up = warm_up::wait;
        return settings;
    }
};

/// Take, use, give back: what one cycle is for every pool.
template <class Pool>
void cycle(Pool& pool) {
    auto lease = pool.acquire();
    ++lease->uses;
}

/// Everybody has one of their own: what the threads do to each other without any pool.
struct no_pool {
    static thing* acquire() {
        static thread_local thing own;
        return &own;
    }
};

/// The least that lending between threads can cost: an exchange to take and an exchange to give
/// back, on two cache lines.
struct two_exchanges {
    struct alignas(64) line {
        std::atomic<thing*> held{nullptr};
    };
    line from{};
    line to{};
    thing it{};
};

inline void cycle(two_exchanges& floor) {
    floor.from.held.exchange(nullptr);
    ++floor.it.uses;
    floor.to.held.exchange(&floor.it);
}

}  // namespace cenote::bench

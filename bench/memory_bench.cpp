// cenote-bench-memory: measures the memory of a coroutine that waits for a lease. A separate
// program, because counting allocations would slow down all other measurements.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <malloc.h>
#include <string>
#include <utility>

#include "coroutine_subjects.hpp"

namespace {

constinit std::uint64_t allocations_so_far = 0;  // only one thread allocates

}  // namespace

// glibc's functions under the names that it provides for replacements.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) { return ++allocations_so_far, __libc_malloc(size); }
void* calloc(std::size_t n, std::size_t size) {
    return ++allocations_so_far, __libc_calloc(n, size);
}
void* realloc(void* p, std::size_t size) { return ++allocations_so_far, __libc_realloc(p, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) {
    return ++allocations_so_far, __libc_memalign(alignment, size);
}
int posix_memalign(void** p, std::size_t alignment, std::size_t size) {
    *p = aligned_alloc(alignment, size);
    return *p == nullptr ? ENOMEM : 0;
}
void free(void* p) { __libc_free(p); }
}

namespace cenote::bench {

namespace {

constexpr std::size_t resources = 20;
constexpr std::size_t waiters = 10'000;

/// The use of the heap at its construction.
struct heap {
    std::size_t bytes = in_use();
    std::uint64_t allocations = allocations_so_far;

private:
    static std::size_t in_use() {
        struct mallinfo2 all = ::mallinfo2();
        return all.uordblks + all.hblkhd;
    }
};

struct run_state {
    bool over = false;  // holders release
    std::size_t waiting = 0;
    std::size_t ended = 0;
};

template <class Loop, pool_on<Loop> Pool>
typename Loop::coroutine hold(Loop& loop, Pool& pool, run_state& all) {
    auto lease = co_await pool.acquire();
    ++all.waiting;
    while (!all.over) co_await loop.yield();
    pool.release(std::move(lease));
    ++all.ended;
}

template <class Loop, pool_on<Loop> Pool>
typename Loop::coroutine wait(Pool& pool, run_state& all) {
    ++all.waiting;
    auto lease = co_await pool.acquire();
    pool.release(std::move(lease));
    ++all.ended;
}

/// Runs a step of the loop; holders yield again and again, so that one is always ready.
void step(asio_loop& loop) {
    if (loop.io.stopped()) loop.io.restart();  // it ran out of work after the first wave
    loop.io.poll_one();
}
void step(run_queue& loop) { loop.run_once(); }

struct count {
    heap before;   // before any waiter is created
    heap made;     // all waiters exist, none waits
    heap waiting;  // all wait
};

template <class Loop, pool_on<Loop> Pool>
count one_wave(Loop& loop, Pool& pool) {
    run_state all;
    for (std::size_t i = 0; i < resources; ++i) loop.spawn(hold<Loop>(loop, pool, all));
    while (all.waiting < resources) step(loop);
    heap before;
    for (std::size_t i = 0; i < waiters; ++i) loop.spawn(wait<Loop>(pool, all));
    heap made;
    while (all.waiting < resources + waiters) step(loop);
    for (std::size_t i = 0; i < 10 * resources; ++i) step(loop);
    heap waiting;
    all.over = true;
    while (all.ended < resources + waiters) step(loop);
    for (std::size_t i = 0; i < 10 * resources; ++i) step(loop);
    return {before, made, waiting};
}

/// Counts the second wave: buffers that grow once, such as the line, have grown in the first.
template <class Loop, pool_on<Loop> Pool>
int print_count() {
    Loop loop(1);
    Pool pool(loop, resources);
    one_wave(loop, pool);
    count seen = one_wave(loop, pool);
    auto each = [](auto from, auto to) {
        return (static_cast<double>(to) - static_cast<double>(from)) / waiters;
    };
    std::printf("metric %.1f - bytes\n", each(seen.before.bytes, seen.waiting.bytes));
    std::printf("metric %.3f - allocations\n",
                each(seen.before.allocations, seen.waiting.allocations));
    std::printf("metric %.3f - allocations of a wait\n",
                each(seen.made.allocations, seen.waiting.allocations));
    return 0;
}

}  // namespace

}  // namespace cenote::bench

int main(int argc, char** argv) {
    using namespace cenote::bench;
    std::string who = argc == 2 ? argv[1] : "";
    if (who == "cenote, awaited") return print_count<asio_loop, cenote_on_asio>();
    if (who == "cenote, co_acquire") return print_count<run_queue, cenote_on_queue>();
    if (who == "channel, awaited") return print_count<asio_loop, channel_pool>();
    if (who == "strand, awaited") return print_count<asio_loop, strand_pool>();
    if (who == "textbook, own loop") return print_count<run_queue, queue_pool>();
    std::fprintf(stderr, "usage: cenote-bench-memory POOL, called by cenote-bench\n");
    return 2;
}

// cenote-bench-memory: how much a coroutine that waits for a lease takes up. A program of its own,
// since counting allocations would slow down everything else.
#include <cstdint>
#include <cstdio>
#include <malloc.h>
#include <string>
#include <utility>

#include "coroutine_subjects.hpp"
#include "support/allocations.hpp"

namespace cenote::bench {

namespace {

constexpr std::size_t resources = 20;
constexpr std::size_t waiters = 10'000;

/// What is taken from the heap, as malloc sees it.
struct heap {
    std::size_t bytes = in_use();
    std::uint64_t allocations = support::allocations_here();

private:
    static std::size_t in_use() {
        struct mallinfo2 all = ::mallinfo2();
        return all.uordblks + all.hblkhd;
    }
};

struct story {
    std::size_t started = 0;
};

/// Never ends: the process does.
template <class Loop, pool_on<Loop> Pool>
typename Loop::coroutine hold(Loop& loop, Pool& pool, story& all) {
    [[maybe_unused]] auto lease = co_await pool.acquire();
    ++all.started;
    for (;;) co_await loop.yield();
}

template <class Loop, pool_on<Loop> Pool>
typename Loop::coroutine wait(Pool& pool, story& all) {
    ++all.started;
    [[maybe_unused]] auto lease = co_await pool.acquire();
    std::puts("failed somebody got a lease");
}

/// Lets the loop go on until so many have started, and then some.
void go_on(asio_loop& loop, const story& all, std::size_t count) {
    while (all.started < count) loop.io.poll_one();
    for (std::size_t i = 0; i < 10 * resources; ++i) loop.io.poll_one();
}
void go_on(run_queue& loop, const story& all, std::size_t count) {
    while (all.started < count) loop.run_once();
    for (int i = 0; i < 10; ++i) loop.run_once();
}

template <class Loop, pool_on<Loop> Pool>
void count() {
    static Loop loop(1);
    static Pool pool(loop, resources);
    static story all;
    for (std::size_t i = 0; i < resources; ++i) loop.spawn(hold<Loop>(loop, pool, all));
    go_on(loop, all, resources);
    heap before;
    for (std::size_t i = 0; i < waiters; ++i) loop.spawn(wait<Loop>(pool, all));
    heap made;
    go_on(loop, all, resources + waiters);
    heap after;
    auto each = [](auto from, auto to) {
        return (static_cast<double>(to) - static_cast<double>(from)) / waiters;
    };
    std::printf("metric %.1f - bytes\n", each(before.bytes, after.bytes));
    std::printf("metric %.3f - allocations\n", each(before.allocations, after.allocations));
    std::printf("metric %.3f - allocations of a wait\n", each(made.allocations, after.allocations));
    std::fflush(stdout);
    std::_Exit(0);  // with all that wait
}

}  // namespace

}  // namespace cenote::bench

int main(int argc, char** argv) {
    using namespace cenote::bench;
    std::string who = argc == 2 ? argv[1] : "";
    if (who == "cenote, awaited") count<asio_loop, cenote_on_asio>();
    if (who == "cenote, co_acquire") count<run_queue, cenote_on_queue>();
    if (who == "channel, awaited") count<asio_loop, channel_pool>();
    if (who == "strand, awaited") count<asio_loop, strand_pool>();
    if (who == "textbook, own loop") count<run_queue, queue_pool>();
    std::fprintf(stderr, "usage: cenote-bench-memory POOL, called by cenote-bench\n");
    return 2;
}

// A given number of cycles in a pool that has enough, to be counted by callgrind: on the fast lane,
// or, compiled with another order, through the keeper.
#include <chrono>
#include <cstdlib>

#include "cenote/pool.hpp"

/// What is counted: see instructions.py, which knows it by this name.
extern "C" [[gnu::noinline]] int make_cycles(cenote::pool<int>& pool, long cycles) {
    int sum = 0;
    for (long i = 0; i < cycles; ++i) {
        auto lease = pool.acquire();
        sum += ++*lease;
    }
    return sum;
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    // The sweeper comes by the clock, which runs differently under callgrind.
    cenote::pool<int> pool{[] { return 0; },
                           {.min_size = 10,
                            .warm_up = cenote::warm_up::wait,
                            .sweep_interval = std::chrono::hours{1},
                            .order = cenote::order::CENOTE_ORDER}};
    return make_cycles(pool, std::strtol(argv[1], nullptr, 10)) == 0 ? 1 : 0;
}

// Runs a given number of cycles without contention, for callgrind: on the fast lane, or through the
// keeper if compiled with another order.
#include <chrono>
#include <cstdlib>

#include "cenote/pool.hpp"

/// instructions.py counts the instructions of the function with this name.
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
    // No sweep: under callgrind, time is not proportional to instructions.
    cenote::pool<int> pool{[] { return 0; },
                           {.min_size = 10,
                            .warm_up = cenote::warm_up::wait,
                            .sweep_interval = std::chrono::hours{1},
                            .order = cenote::order::CENOTE_ORDER}};
    return make_cycles(pool, std::strtol(argv[1], nullptr, 10)) == 0 ? 1 : 0;
}

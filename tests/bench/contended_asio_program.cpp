// Runs a given number of cycles of 10,000 Asio coroutines on 20 resources, where every acquire
// waits, for callgrind. The yield is the same as in the benchmark.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdlib>

#include "cenote/asio.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr std::size_t coroutines = 10'000;

asio::io_context io(1);
long left = 0;

asio::awaitable<void> borrow(cenote::pool<int>& pool) {
    for (;;) {
        auto lease = co_await pool.co_acquire();
        ++*lease;
        co_await asio::post(asio::use_awaitable);
        lease.give_back();
        if (--left == 0) io.stop();
    }
}

}  // namespace

/// instructions.py counts the instructions of the function with this name.
extern "C" [[gnu::noinline]] void make_cycles(long cycles) {
    left = cycles;
    io.restart();
    io.run();
}

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    // No sweep: under callgrind, time is not proportional to instructions.
    cenote::pool<int> pool{[] { return 0; },
                           {.max = 20,
                            .min_size = 20,
                            .warm_up = cenote::warm_up::wait,
                            .acquire_timeout = 1h,
                            .sweep_interval = 1h}};
    for (std::size_t i = 0; i < coroutines; ++i) asio::co_spawn(io, borrow(pool), asio::detached);
    make_cycles(2 * static_cast<long>(coroutines));
    make_cycles(std::strtol(argv[1], nullptr, 10));
    std::_Exit(0);  // the coroutines never end
}

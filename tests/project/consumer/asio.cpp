// A minimal program with a pool on an executor.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include <cenote/asio.hpp>

namespace asio = boost::asio;

static asio::awaitable<int> open_one() { co_return 42; }

static asio::awaitable<void> use(cenote::pool<int>& pool, int& seen) {
    {
        auto lease = co_await pool.async_acquire(asio::use_awaitable);
        seen = *lease;
    }
    pool.close();
}

int main() {
    asio::io_context io;
    cenote::pool<int> pool{io, open_one};
    int seen = 0;
    asio::co_spawn(io, use(pool, seen), asio::detached);
    io.run();
    return seen == 42 ? 0 : 1;
}

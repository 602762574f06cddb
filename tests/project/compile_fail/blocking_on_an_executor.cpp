// expect: must return boost::asio::awaitable
#include <boost/asio/io_context.hpp>

#include <cenote/asio.hpp>

void open_would_block_the_loop(boost::asio::io_context& io) {
    auto open = [] { return 1; };
#ifdef CENOTE_CONTROL
    static_cast<void>(io);
    cenote::pool<int> pool{open};
#else
    cenote::pool<int> pool{io, open};
#endif
}

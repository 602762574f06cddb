// expect: an awaitable needs .*an executor
#include <boost/asio/io_context.hpp>

#include <cenote/asio.hpp>

void open_cannot_be_awaited(boost::asio::io_context& io) {
    auto open = []() -> boost::asio::awaitable<int> { co_return 1; };
#ifdef CENOTE_CONTROL
    cenote::pool<int> pool{io, open};
#else
    static_cast<void>(io);
    cenote::pool<int> pool{open};
#endif
}

// expect: the connector's forsake must accept a T& and return nothing
#include <boost/asio/io_context.hpp>

#include <cenote/asio.hpp>

struct connector {
    boost::asio::awaitable<int> open();
#ifdef CENOTE_CONTROL
    void forsake(int&);
#else
    boost::asio::awaitable<void> forsake(int&);
#endif
};

void forsake_would_not_be_awaited(boost::asio::io_context& io) {
    cenote::pool<int> pool{io, connector{}};
}

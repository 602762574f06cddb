// expect: the connector's probe must
#include <boost/asio/io_context.hpp>

#include <cenote/asio.hpp>

struct connector {
    boost::asio::awaitable<int> open();
#ifdef CENOTE_CONTROL
    boost::asio::awaitable<bool> probe(int&);
#else
    boost::asio::awaitable<int> probe(int&);
#endif
};

void probe_returns_a_number(boost::asio::io_context& io) {
    cenote::pool<int> pool{io, connector{}};
}

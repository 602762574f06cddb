// A forgotten <cenote/asio.hpp> or <cenote/coroutine.hpp>.
#include <system_error>

#if CENOTE_MISTAKE != 1 && CENOTE_MISTAKE != 2
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#endif

#if CENOTE_MISTAKE == 0
#include <cenote/asio.hpp>
#elif CENOTE_MISTAKE == 2
#include <cenote/pool.hpp>
#else
#include <cenote/coroutine.hpp>
#endif

#if CENOTE_MISTAKE == 1  // expect within 2: needs_include_cenote_asio_hpp
struct handler {
    void operator()(std::error_code, cenote::lease<int>) const {}
};
void call_back(cenote::pool<int>& pool) { pool.async_acquire(handler()); }
#elif CENOTE_MISTAKE == 2  // expect within 8: needs #include <cenote/coroutine.hpp>
void await(cenote::pool<int>& pool) { auto awaited = pool.co_acquire(); }
#elif CENOTE_MISTAKE == 3  // expect within 5: needs_include_cenote_asio_hpp
boost::asio::awaitable<int> make();
void open_on(boost::asio::io_context& io) { cenote::pool<int> pool{io, make}; }
#else
#if CENOTE_MISTAKE == 4  // expect within 15: needs #include <cenote/asio.hpp>
#endif
boost::asio::awaitable<void> await(cenote::pool<int>& pool) {
    auto lease = co_await pool.co_acquire();
}
#endif

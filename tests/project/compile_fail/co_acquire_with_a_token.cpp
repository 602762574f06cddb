// expect: co_acquire is for co_await
#include <boost/system/error_code.hpp>

#include <cenote/asio.hpp>

void calls_back(cenote::pool<int>& pool) {
#ifdef CENOTE_CONTROL
    pool.async_acquire([](boost::system::error_code, cenote::lease<int>) {});
#else
    pool.co_acquire()([](cenote::acquired<int>) {});
#endif
}

// expect: must return
#include <string>

#include <cenote/asio.hpp>

void the_new_connector_opens_another_type(cenote::pool<int>& pool) {
#ifdef CENOTE_CONTROL
    pool.replace_connector([]() -> boost::asio::awaitable<int> { co_return 1; });
#else
    pool.replace_connector([]() -> boost::asio::awaitable<std::string> { co_return "1"; });
#endif
}

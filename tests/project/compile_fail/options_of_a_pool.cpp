// Misspelt, misordered and mistyped options of a pool.
#include <boost/asio/io_context.hpp>
#include <chrono>

#include <cenote/asio.hpp>

using namespace std::chrono_literals;

#ifdef __clang__
#pragma clang diagnostic error "-Wreorder-init-list"
#endif

struct session {};
session make();
boost::asio::awaitable<session> make_async();

void misuse([[maybe_unused]] boost::asio::io_context& io) {
#if CENOTE_MISTAKE == 1  // expect within 2: An option is misspelt.*cenote::options\{
    cenote::pool<session> pool{make, {.maximum = 3}};
#elif CENOTE_MISTAKE == 2   // expect within 2: An option is misspelt.*cenote::options\{
    cenote::pool<session> pool{make, {.acquire_timout = 2s}};
#elif CENOTE_MISTAKE == 3   // expect within 2: acquire_timout
    cenote::pool<session> pool{make, cenote::options{.acquire_timout = 2s}};
#elif CENOTE_MISTAKE == 4   // expect within 2: order.*(name|max)
    cenote::pool<session> pool{make, {.max = 4, .name = "x"}};
#elif CENOTE_MISTAKE == 5   // expect within 2: a duration is 5s, not 5
    cenote::pool<session> pool{make, {.acquire_timeout = 5}};
#elif CENOTE_MISTAKE == 6   // expect within 2: write pool\{connector, \{
    cenote::pool<session> pool{make, 16};
#elif CENOTE_MISTAKE == 7   // expect within 2: write pool\{connector, \{
    cenote::options settings;
    cenote::pool<session> pool{settings, make};
#elif CENOTE_MISTAKE == 8   // expect within 2: write pool\{connector, \{
    cenote::pool<session> pool{{.max = 3}, make};
#elif CENOTE_MISTAKE == 9   // expect within 2: An option is misspelt
    cenote::pool<session> pool{io, make_async, {.maximum = 3}};
#elif CENOTE_MISTAKE == 10  // expect within 2: An option is misspelt
    cenote::pool pool{make, {.maximum = 3}};
#elif CENOTE_MISTAKE == 11  // expect within 2: write pool\{connector, \{
    cenote::pool<session> pool;
#else
    cenote::pool<session> pool{make, {.name = "x", .max = 3, .acquire_timeout = 2s}};
    cenote::pool<session> async{io, make_async, {.max = 3}};
    cenote::pool deduced{make, {.max = 3}};
#endif
}

// The server accepts again after it was out of memory.
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "cenote/http_server.hpp"
#include "http_server/connections.hpp"
#include "support/allocations.hpp"
#include "support/tcp_client.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using cenote::http_server::request;
using cenote::http_server::response;
using cenote::http_server::server;
using support::allocation_failure;
using support::tcp_client;

asio::awaitable<response> greet(request) {
    co_return cenote::http_server::to_response(cenote::answer(200, "hello"));
}

/// Whether `client` gets a response.
bool is_answered(asio::io_context& io, tcp_client& client) {
    client.say("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
    std::string heard;
    return support::eventually([&] {
        io.poll();
        heard += client.hear(1000, 1ms);
        return heard.ends_with("hello");
    });
}

/// The allocation of a connection fails. (A later failure would happen in Boost.Beast, which ends
/// the program.)
TEST(http_server_alloc, accepts_again_after_a_failed_allocation) {
    for (std::uint64_t spared : {0u, 1u}) {
        asio::io_context io(1);
        server here(io.get_executor(), {asio::ip::address_v4::loopback(), 0}, greet);
        tcp_client bystander(here.endpoint().port());
        ASSERT_TRUE(is_answered(io, bystander));
        {
            tcp_client before(here.endpoint().port());
            ASSERT_TRUE(is_answered(io, before));
        }
        ASSERT_TRUE(support::eventually([&] {
            io.poll();
            return here.stats().connections == 1;  // and the event loop has memory for another
        }));
        tcp_client unlucky(here.endpoint().port());
        {
            allocation_failure failure(spared, allocation_failure::scope::once,
                                       sizeof(cenote::http_server::connection));
            ASSERT_TRUE(support::eventually([&] {
                io.poll();
                return failure.happened();
            }));
        }
        EXPECT_EQ(here.stats().accepted, 2u) << "the allocation failed where intended";
        EXPECT_NE(unlucky.end(), support::ended::not_yet);
        tcp_client next(here.endpoint().port());
        EXPECT_TRUE(is_answered(io, next));
        EXPECT_TRUE(is_answered(io, bystander));
        EXPECT_EQ(here.stats().connections, 2u);
    }
}

}  // namespace

// The server's door where memory is short: nobody else is kept out for it.
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <new>
#include <string>

#include <gtest/gtest.h>

#include "cenote/http_server.hpp"
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

/// Serves until `client` has been answered, or there is no hope that it will be.
bool is_answered(asio::io_context& io, tcp_client& client) {
    client.say("GET / HTTP/1.1\r\nHost: t\r\n\r\n");
    std::string heard;
    return support::eventually(
        [&] {
            io.poll();
            heard += client.hear(1000, 1ms);
            return heard.ends_with("hello");
        },
        10s);
}

enum class shortage { none, of_the_server, of_the_event_loop };

/// A client comes while the allocation after `spared` others fails. Then others come.
shortage survive(std::uint64_t spared) {
    asio::io_context io(1);
    // Two places: one is the bystander's, so whoever does not leave is noticed.
    server here(io.get_executor(), {asio::ip::address_v4::loopback(), 0}, greet,
                {.connections = 2});
    tcp_client bystander(here.endpoint().port());
    EXPECT_TRUE(is_answered(io, bystander));
    auto happened = shortage::none;
    try {
        tcp_client unlucky(here.endpoint().port());
        allocation_failure failure(spared);
        io.poll();
        if (failure.happened()) happened = shortage::of_the_server;
    } catch (const std::bad_alloc&) {
        return shortage::of_the_event_loop;  // which loses what it was about to do
    }
    EXPECT_TRUE(support::eventually([&] {
        io.poll();
        return here.stats().connections == 1;
    }));
    tcp_client next(here.endpoint().port());
    EXPECT_TRUE(is_answered(io, next));
    EXPECT_TRUE(is_answered(io, bystander));
    return happened;
}

TEST(http_server_alloc, opens_again_wherever_memory_was_short) {
    int survived = 0;
    for (std::uint64_t spared = 0;; ++spared) {
        SCOPED_TRACE(spared);
        ASSERT_LT(spared, 200u);
        auto happened = survive(spared);
        if (HasFailure() || happened == shortage::none) break;
        if (happened == shortage::of_the_server) ++survived;
    }
    EXPECT_GE(survived, 3);
}

}  // namespace

// 5: a service on Boost.Asio: each request leases one of two engines, and no thread ever blocks.
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstdio>
#include <string>

#include <cenote/asio.hpp>

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

/// Stands for an expensive object that serves one request at a time.
struct engine {
    std::string serve(const std::string& request) {
        return request.substr(0, request.find('\n')) + ", served by engine " +
               std::to_string(number);
    }
    int number;
};

asio::awaitable<std::string> read_line(tcp::socket& from) {
    std::string line;
    co_await asio::async_read_until(from, asio::dynamic_buffer(line), '\n', asio::use_awaitable);
    co_return line;
}

asio::awaitable<void> serve_one(tcp::socket client, cenote::pool<engine>& engines) {
    std::string request = co_await read_line(client);
    std::string reply;
    try {
        auto lease = co_await engines.co_acquire_for(1s);
        reply = lease->serve(request) + "\n";
    } catch (const cenote::pool_error& e) {
        reply = std::string("busy: ") + e.what() + "\n";
    }
    co_await asio::async_write(client, asio::buffer(reply), asio::use_awaitable);
}

asio::awaitable<void> send_request(tcp::endpoint where, int number, int& served) {
    tcp::socket server(co_await asio::this_coro::executor);
    co_await server.async_connect(where, asio::use_awaitable);
    std::string request = "request " + std::to_string(number) + "\n";
    co_await asio::async_write(server, asio::buffer(request), asio::use_awaitable);
    std::string reply = co_await read_line(server);
    if (reply.starts_with(request.substr(0, request.size() - 1) + ",")) ++served;
}

asio::awaitable<void> serve(tcp::acceptor& acceptor, cenote::pool<engine>& engines, int requests) {
    for (int i = 0; i < requests; ++i) {
        tcp::socket client = co_await acceptor.async_accept(asio::use_awaitable);
        asio::co_spawn(acceptor.get_executor(), serve_one(std::move(client), engines),
                       asio::detached);
    }
}

}  // namespace

int main() {
    constexpr int requests = 100;
    asio::io_context io(1);
    std::atomic<int> made{0};  // opens may run in parallel
    cenote::pool<engine> engines{[&made] { return engine{++made}; }, {.max = 2}};
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    int served = 0;
    asio::co_spawn(io, serve(acceptor, engines, requests), asio::detached);
    for (int i = 0; i < requests; ++i)
        asio::co_spawn(io, send_request(acceptor.local_endpoint(), i, served), asio::detached);
    io.run();
    std::printf("%d of %d requests served by %d engines\n", served, requests, made.load());
    return served == requests && made <= 2 ? 0 : 1;
}

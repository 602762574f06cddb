// 9: a pool without threads: open, probe and close are coroutines on the event loop.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include <cenote/asio.hpp>

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

namespace {

/// A connection with one request and reply at a time.
struct connection {
    asio::awaitable<std::string> send(std::string request) {
        request += '\n';
        co_await asio::async_write(socket, asio::buffer(request), asio::use_awaitable);
        std::string reply;
        co_await asio::async_read_until(socket, asio::dynamic_buffer(reply), '\n',
                                        asio::use_awaitable);
        reply.pop_back();
        co_return reply;
    }

    tcp::socket socket;
};

/// Each call has a timeout (options::open_timeout and so on), which cancels it.
struct connector {
    asio::awaitable<connection> open() {
        tcp::socket socket(co_await asio::this_coro::executor);
        co_await socket.async_connect(server, asio::use_awaitable);
        co_return connection{std::move(socket)};
    }
    asio::awaitable<bool> probe(connection& c) {
        std::string reply = co_await c.send("ping");
        co_return reply == "ping";
    }
    void close(connection& c) const {  // no coroutine, because it does not block
        c.socket.shutdown(tcp::socket::shutdown_both);
    }

    tcp::endpoint server;
};

/// The server: echoes every line.
asio::awaitable<void> echo(tcp::socket client) {
    std::string line;
    for (boost::system::error_code gone;;) {
        co_await asio::async_read_until(client, asio::dynamic_buffer(line), '\n',
                                        asio::redirect_error(asio::use_awaitable, gone));
        if (gone) co_return;
        co_await asio::async_write(client, asio::buffer(line), asio::use_awaitable);
        line.clear();
    }
}

asio::awaitable<void> serve(tcp::acceptor& acceptor) {
    for (boost::system::error_code closed;;) {
        tcp::socket client =
            co_await acceptor.async_accept(asio::redirect_error(asio::use_awaitable, closed));
        if (closed) co_return;
        asio::co_spawn(acceptor.get_executor(), echo(std::move(client)), asio::detached);
    }
}

asio::awaitable<void> use(cenote::pool<connection>& pool, int& replies) {
    auto lease = co_await pool.async_acquire_for(5s, asio::use_awaitable);
    std::string reply = co_await lease->send("hello");
    if (reply == "hello") ++replies;
}

asio::awaitable<void> use_all(cenote::pool<connection>& pool, tcp::acceptor& acceptor,
                              int& replies) {
    constexpr int users = 50;
    for (int i = 0; i < users; ++i)
        asio::co_spawn(acceptor.get_executor(), use(pool, replies), asio::detached);
    while (replies < users) co_await asio::post(asio::use_awaitable);
    std::size_t left = co_await pool.async_close(5s, asio::use_awaitable);
    std::printf("%d replies, %zu leases left\n", replies, left);
    acceptor.close();
}

}  // namespace

int main() {
    asio::io_context io(1);
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
    cenote::pool<connection> pool{io, connector{acceptor.local_endpoint()}, {.max = 4}};
    int replies = 0;
    asio::co_spawn(io, serve(acceptor), asio::detached);
    asio::co_spawn(io, use_all(pool, acceptor, replies), asio::detached);
    io.run();  // runs all of this on one thread
    auto seen = pool.stats();
    std::printf("%llu connections opened, %llu closed\n",
                static_cast<unsigned long long>(seen.opened),
                static_cast<unsigned long long>(seen.closed));
    return replies == 50 && seen.opened <= 4 && seen.opened == seen.closed ? 0 : 1;
}

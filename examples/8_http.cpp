// 8: pooled keep-alive connections to a web server, for threads and coroutines.
//
// Usage: 8_http [URL]; by default it starts a small server of its own.
#include <array>
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
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include <cenote/asio.hpp>
#include <cenote/http.hpp>

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

using http_pool = cenote::pool<cenote::http::connection>;

void get(http_pool& pool) {
    auto connection = pool.acquire();
    auto response = connection->send(cenote::http::get("/").with("Accept", "text/plain"));
    std::printf("%d %s, %zu bytes\n", response.status, response.reason.c_str(),
                response.body.size());
}

asio::awaitable<void> async_get(http_pool* pool) {
    auto connection = co_await pool->async_acquire(asio::use_awaitable);
    auto response = co_await connection->async_stream(cenote::http::get("/"));
    std::size_t size = 0;
    while (auto piece = co_await response.async_next()) size += piece->size();
    std::printf("%d, %zu bytes, a piece at a time\n", response.head().status, size);
}

/// Any request can be repeated safely after not_sent: the server had closed the connection before.
cenote::http::response send_once(http_pool& pool, const cenote::http::request& request) {
    for (;;) {
        auto connection = pool.acquire();
        try {
            return connection->send(request);
        } catch (const cenote::http::not_sent&) {
            continue;  // the pool discards this connection
        }
    }
}

/// Serves the same page for every request, on its own thread.
class tiny_server {
public:
    tiny_server() : acceptor_(loop_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
        asio::co_spawn(loop_, accept_all(), asio::detached);
        thread_ = std::thread([this] { loop_.run(); });
    }
    tiny_server(const tiny_server&) = delete;
    tiny_server& operator=(const tiny_server&) = delete;
    ~tiny_server() {
        loop_.stop();
        thread_.join();
    }
    std::string url() const {
        return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
    }

private:
    asio::awaitable<void> accept_all() {
        for (;;) {
            tcp::socket client = co_await acceptor_.async_accept(asio::use_awaitable);
            asio::co_spawn(loop_, serve(std::move(client)), asio::detached);
        }
    }
    static asio::awaitable<void> serve(tcp::socket client) {
        std::string received;
        std::string page = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";
        for (;;) {
            std::size_t size = co_await asio::async_read_until(
                client, asio::dynamic_buffer(received), "\r\n\r\n", asio::use_awaitable);
            received.erase(0, size);
            co_await asio::async_write(client, asio::buffer(page), asio::use_awaitable);
        }
    }

    asio::io_context loop_;
    tcp::acceptor acceptor_;
    std::thread thread_;
};

void run(const std::string& url) {
    http_pool pool{cenote::http::connector(url), {.name = "web", .max = 4}};
    get(pool);
    asio::io_context loop;
    asio::co_spawn(loop, async_get(&pool), asio::detached);
    loop.run();
    std::printf("%d\n", send_once(pool, cenote::http::head("/")).status);
    std::printf("%llu connection(s) opened\n",
                static_cast<unsigned long long>(pool.stats().opened));
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc > 1) {
            run(argv[1]);
        } else {
            tiny_server server;
            run(server.url());
        }
    } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
        return 1;
    }
}

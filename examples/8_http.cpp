// 8: keep-alive connections to a web server, pooled: threads and coroutines take turns.
//
// Asks the server whose URL is given, or else a tiny one of its own.
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

void ask(http_pool& pool) {
    auto connection = pool.acquire();
    auto answer = connection->send(cenote::http::get("/").with("Accept", "text/plain"));
    std::printf("%d %s, %zu bytes\n", answer.status, answer.reason.c_str(), answer.body.size());
}

asio::awaitable<void> ask_awaited(http_pool* pool) {
    auto connection = co_await pool->async_acquire(asio::use_awaitable);
    auto answer = co_await connection->async_stream(cenote::http::get("/"));
    std::size_t size = 0;
    while (auto piece = co_await answer.async_next()) size += piece->size();
    std::printf("%d, %zu bytes, a piece at a time\n", answer.head().status, size);
}

/// What was not sent may be sent again, whatever it asks for: the server had hung up before.
cenote::http::response send_once(http_pool& pool, const cenote::http::request& asked) {
    for (;;) {
        auto connection = pool.acquire();
        try {
            return connection->send(asked);
        } catch (const cenote::http::not_sent&) {
            continue;  // this connection is not lent again
        }
    }
}

/// Answers everything with the same page, on a thread of its own.
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
        std::string heard;
        std::string page = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n";
        for (;;) {
            std::size_t size = co_await asio::async_read_until(client, asio::dynamic_buffer(heard),
                                                               "\r\n\r\n", asio::use_awaitable);
            heard.erase(0, size);
            co_await asio::async_write(client, asio::buffer(page), asio::use_awaitable);
        }
    }

    asio::io_context loop_;
    tcp::acceptor acceptor_;
    std::thread thread_;
};

void run(const std::string& url) {
    http_pool pool{cenote::http::connector(url), {.name = "web", .max = 4}};
    ask(pool);
    asio::io_context loop;
    asio::co_spawn(loop, ask_awaited(&pool), asio::detached);
    loop.run();
    std::printf("%d\n", send_once(pool, cenote::http::head("/")).status);
    std::printf("%llu connection(s) opened\n",
                static_cast<unsigned long long>(pool.stats().opened));
}

}  // namespace

int main(int count, char** words) {
    try {
        if (count > 1) {
            run(words[1]);
        } else {
            tiny_server server;
            run(server.url());
        }
    } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
        return 1;
    }
}

// A server on its own threads, and helpers for clients.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/http/verb.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cenote/http_server.hpp"
#include "support/tcp_client.hpp"

namespace served {

namespace asio = boost::asio;
using cenote::http_server::handler;
using cenote::http_server::limits;
using cenote::http_server::request;
using cenote::http_server::response;
using cenote::http_server::server;

/// An event loop with threads.
class loop {
public:
    explicit loop(int threads = 2) : busy_(asio::make_work_guard(io_)) {
        for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { io_.run(); });
    }
    ~loop() {
        busy_.reset();
        io_.stop();
        for (std::thread& t : threads_) t.join();
    }
    loop(const loop&) = delete;
    loop& operator=(const loop&) = delete;

    asio::io_context& io() { return io_; }

private:
    asio::io_context io_;
    asio::executor_work_guard<asio::io_context::executor_type> busy_;
    std::vector<std::thread> threads_;
};

/// A server with one handler.
class front {
public:
    explicit front(handler work, const limits& within = {}, server::error_handler on_error = {})
        : server_(loop_.io().get_executor(), {asio::ip::address_v4::loopback(), 0}, std::move(work),
                  within, std::move(on_error)) {}

    std::uint16_t port() const { return server_.endpoint().port(); }
    cenote::http_server::server_stats stats() const { return server_.stats(); }
    std::future<std::size_t> drain(std::chrono::nanoseconds within) {
        return asio::co_spawn(loop_.io(), server_.drain(within), asio::use_future);
    }
    asio::io_context& io() { return loop_.io(); }

private:
    loop loop_;
    server server_;
};

/// A parsed response.
struct heard {
    int status = 0;
    std::string head;
    std::string body;

    bool has(std::string_view field) const { return head.find(field) != std::string::npos; }
};

/// Reads one response; status 0 for none in time.
inline heard hear_answer(support::tcp_client& from,
                         std::chrono::nanoseconds limit = support::plenty) {
    heard all;
    while (!all.head.ends_with("\r\n\r\n")) {
        std::string next = from.hear(1, limit);
        if (next.empty()) return {};
        all.head += next;
    }
    std::from_chars(all.head.data() + 9, all.head.data() + 12, all.status);
    if (std::size_t at = all.head.find("Content-Length: "); at != std::string::npos) {
        std::size_t length = 0;
        std::from_chars(all.head.data() + at + 16, all.head.data() + all.head.size(), length);
        all.body = from.hear(length, limit);
    }
    return all;
}

inline heard ask(support::tcp_client& client, std::string_view bytes) {
    client.say(bytes);
    return hear_answer(client);
}

inline heard get(std::uint16_t port, std::string_view path) {
    support::tcp_client client(port);
    return ask(client, "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n\r\n");
}

template <class T>
bool is_ready(const std::future<T>& what) {
    return what.wait_for(std::chrono::seconds{0}) == std::future_status::ready;
}

}  // namespace served

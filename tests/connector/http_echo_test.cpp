// Identity echo with nginx.
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "cenote/http.hpp"
#include "connector/echo.hpp"
#include "support/real_server.hpp"

namespace cenote::http {
namespace {

using namespace std::chrono_literals;
using boost::asio::awaitable;
using echo::book;
using echo::dice;

/// A request whose response is known. Requests have different sizes, and so have the responses.
struct question {
    std::string word;
    bool streams;
    bool leaves;

    question(book& b, dice& d) : word(b.word() + "-"), streams(d() % 4 == 0), leaves(d() % 8 == 0) {
        if (d() % 8 == 0) word.append(d() % 3000, 'x');
    }
    request asked() const { return get("/echo?nonce=" + word); }
    void compare(const response& got, book& b) const {
        b.compare(got.status == 200 && got.body == word);
    }
};

support::nginx_options with_count() {
    support::nginx_options chosen;
    chosen.locations = "location = /count { stub_status; }\n";
    return chosen;
}

std::string url_of(std::uint16_t port) { return "http://127.0.0.1:" + std::to_string(port); }

class subject {
public:
    using connection = http::connection;
    static constexpr auto cancel_every = 3ms;

    support::real_server& real() { return server_; }
    static connector through(std::uint16_t port) {
        return connector(url_of(port) + "?" + echo::deadlines);
    }

    static void ask(connection& c, book& b, dice& d) {
        question q(b, d);
        if (!q.streams) return q.compare(c.send(q.asked()), b);
        streamed s = c.stream(q.asked());
        if (q.leaves && !b.calm) return;  // without reading the body
        response all = s.head();
        while (auto piece = s.next()) all.body += *piece;
        q.compare(all, b);
    }
    static awaitable<void> ask_awaited(connection* c, book* b, dice* d) {
        question q(*b, *d);
        response got;
        if (q.streams) got = co_await stream_awaited(c, q.asked());
        else got = co_await c->async_send(q.asked());
        q.compare(got, *b);
    }

    /// Without the connection of this request.
    int count() {
        std::string text = admin_([](connection& c) { return c.send(get("/count")).body; });
        return std::atoi(text.c_str() + text.find(':') + 1) - 1;
    }

private:
    static awaitable<response> stream_awaited(connection* c, request asked) {
        streamed s = co_await c->async_stream(std::move(asked));
        response all = s.head();
        for (;;) {
            std::optional<std::string> piece = co_await s.async_next();
            if (!piece) co_return all;
            all.body += *piece;
        }
    }

    support::nginx_server server_{with_count()};
    echo::admin<connector> admin_{connector(url_of(server_.port()))};
};

TEST(http_echo, returns_to_each_request_its_own_word) { echo::run_echo<subject>(); }

}  // namespace
}  // namespace cenote::http

// 9: connections to a server, pooled without a thread: open, probe and close are coroutines too.
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

/// One connection: a question, an answer, one at a time.
struct connection {
    asio::awaitable<std::string> ask(std::string question) {
        question += '\n';
        co_await asio::async_write(socket, asio::buffer(question), asio::use_awaitable);
        std::string answer;
        co_await asio::async_read_until(socket, asio::dynamic_buffer(answer), '\n',
                                        asio::use_awaitable);
        answer.pop_back();
        co_return answer;
    }

    tcp::socket socket;
};

/// Every call has its timeout (options::open_timeout and so on) and is cancelled at its end.
struct connector {
    asio::awaitable<connection> open() {
        tcp::socket socket(co_await asio::this_coro::executor);
        co_await socket.async_connect(server, asio::use_awaitable);
        co_return connection{std::move(socket)};
    }
    asio::awaitable<bool> probe(connection& c) {
        std::string answer = co_await c.ask("are you there?");
        co_return answer == "are you there?";
    }
    void close(connection& c) const {  // does not block, so it may return at once
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

asio::awaitable<void> serve(tcp::acceptor& door) {
    for (boost::system::error_code closed;;) {
        tcp::socket client =
            co_await door.async_accept(asio::redirect_error(asio::use_awaitable, closed));
        if (closed) co_return;
        asio::co_spawn(door.get_executor(), echo(std::move(client)), asio::detached);
    }
}

asio::awaitable<void> use(cenote::pool<connection>& pool, int& answered) {
    auto held = co_await pool.async_acquire_for(5s, asio::use_awaitable);
    std::string answer = co_await held->ask("hello");
    if (answer == "hello") ++answered;
}

asio::awaitable<void> use_all(cenote::pool<connection>& pool, tcp::acceptor& door, int& answered) {
    constexpr int users = 50;
    for (int i = 0; i < users; ++i)
        asio::co_spawn(door.get_executor(), use(pool, answered), asio::detached);
    while (answered < users) co_await asio::post(asio::use_awaitable);
    std::size_t left = co_await pool.async_close(5s, asio::use_awaitable);
    std::printf("%d answers, %zu leases left\n", answered, left);
    door.close();
}

}  // namespace

int main() {
    asio::io_context io(1);
    tcp::acceptor door(io, {asio::ip::address_v4::loopback(), 0});
    cenote::pool<connection> pool{io, connector{door.local_endpoint()}, {.max = 4}};
    int answered = 0;
    asio::co_spawn(io, serve(door), asio::detached);
    asio::co_spawn(io, use_all(pool, door, answered), asio::detached);
    io.run();  // everything above, on this thread
    auto seen = pool.stats();
    std::printf("%llu connections opened, %llu closed\n",
                static_cast<unsigned long long>(seen.opened),
                static_cast<unsigned long long>(seen.closed));
    return answered == 50 && seen.opened <= 4 && seen.opened == seen.closed ? 0 : 1;
}

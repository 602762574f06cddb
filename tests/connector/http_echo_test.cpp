// Identity echo: whoever asks sends a word of their own, and must get exactly that back, whatever
// happens to connections meanwhile. CENOTE_ECHO_QUERIES says how many; by default 250 000, or as
// many as 20 seconds allow.
#include <algorithm>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/http.hpp"
#include "cenote/pool.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/real_server.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace cenote::http;
using steady = std::chrono::steady_clock;
using dice = std::minstd_rand;

constexpr int max_connections = 5;
constexpr unsigned threads = 15;
constexpr unsigned coroutines = 15;

/// What was seen, by all.
struct book {
    std::uint64_t wanted = 250'000;
    steady::time_point end = steady::now() + 20s;
    std::atomic<std::uint64_t> right{0};
    std::atomic<std::uint64_t> wrong{0};
    std::atomic<std::uint64_t> failed{0};
    std::atomic<std::uint64_t> refused{0};
    std::atomic<std::uint64_t> cancelled{0};
    std::atomic<std::uint64_t> faults{0};
    std::atomic<std::uint64_t> words{0};

    book() {
        if (const char* number = std::getenv("CENOTE_ECHO_QUERIES")) {
            wanted = std::strtoull(number, nullptr, 10);
            end = steady::time_point::max();
        }
    }
    bool over() const { return right >= wanted || steady::now() > end; }
};

/// A question whose answer is known. Of different sizes, so that answers are of different sizes.
struct question {
    std::string word;
    bool streams;

    question(book& b, dice& d)
        : word("word-" + std::to_string(++b.words) + "-"), streams(d() % 4 == 0) {
        if (d() % 8 == 0) word.append(d() % 3000, 'x');
    }
    std::string target() const { return "/echo?nonce=" + word; }
    void compare(int status, const std::string& body, book& b) const {
        ++(status == 200 && body == word ? b.right : b.wrong);
    }
};

void ask_as_thread(cenote::pool<connection>& pool, book& b, unsigned seed) {
    dice d(seed);
    while (!b.over()) {
        try {
            auto lease = pool.acquire_for(2s);
            question q(b, d);
            if (!q.streams) {
                response r = lease->send(get(q.target()));
                q.compare(r.status, r.body, b);
                continue;
            }
            streamed s = lease->stream(get(q.target()));
            if (d() % 8 == 0) continue;  // left in the middle
            std::string body;
            while (auto piece = s.next()) body += *piece;
            q.compare(s.head().status, body, b);
        } catch (const cenote::server_error&) {
            ++b.failed;
        } catch (const std::exception&) {
            ++b.refused;
        }
    }
}

struct asker {
    cenote::pool<connection>* pool;
    book* b;
    dice d;
    asio::cancellation_signal cancel{};

    asker(cenote::pool<connection>& from, book& seen, unsigned seed)
        : pool(&from), b(&seen), d(seed) {}
};

asio::awaitable<response> stream_all(connection* c, std::string target) {
    request asked = get(std::move(target));
    streamed s = co_await c->async_stream(std::move(asked));
    response all = s.head();
    for (;;) {
        std::optional<std::string> piece = co_await s.async_next();
        if (!piece) co_return all;
        all.body += *piece;
    }
}

asio::awaitable<void> ask_once(asker* who) {
    auto lease = co_await who->pool->async_acquire(asio::use_awaitable);
    question q(*who->b, who->d);
    asio::any_io_executor here = co_await asio::this_coro::executor;
    auto slot = asio::bind_cancellation_slot(who->cancel.slot(), asio::use_awaitable);
    response r;
    if (q.streams) {
        auto sent = stream_all(lease.get(), q.target());
        r = co_await asio::co_spawn(here, std::move(sent), slot);
    } else {
        auto sent = lease->async_send(get(q.target()));
        r = co_await asio::co_spawn(here, std::move(sent), slot);
    }
    q.compare(r.status, r.body, *who->b);
}

asio::awaitable<void> ask_as_coroutine(asker* who) {
    while (!who->b->over()) {
        try {
            co_await ask_once(who);
        } catch (const cenote::server_error&) {
            ++who->b->failed;
        } catch (const boost::system::system_error&) {
            ++who->b->cancelled;
        } catch (const std::exception&) {
            ++who->b->refused;
        }
    }
}

/// On the loop of those who ask: a signal is not for several threads.
asio::awaitable<void> cancel_at_random(std::deque<asker>* all, book* b) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    dice d(99);
    while (!b->over()) {
        timer.expires_after(std::chrono::microseconds(500 + d() % 3000));
        co_await timer.async_wait(asio::use_awaitable);
        (*all)[d() % all->size()].cancel.emit(asio::cancellation_type::terminal);
    }
}

void fault(support::gate& between, dice& d) {
    using ending = support::gate::ending;
    switch (d() % 7) {
        case 0: between.reset_all(); break;
        case 1: between.finish_all(); break;
        case 2: between.cut_after(d() % 600, ending::finish); break;
        case 3: between.cut_after(d() % 600, ending::reset); break;
        case 4: between.delay(std::chrono::microseconds(d() % 3000)); break;
        case 5: between.split(); break;
        default: between.hold_replies(); break;
    }
    support::pass(std::chrono::milliseconds(1 + d() % 10));
    between.pass();
}

/// The server's own count, without the one who asks.
int counted(const connector& direct) {
    std::string text = direct.open().send(get("/count")).body;
    return std::atoi(text.c_str() + text.find(':') + 1) - 1;
}

TEST(http_echo, gives_everybody_their_own_word) {
    support::nginx_options chosen;
    chosen.locations = "location = /count { stub_status; }\n";
    support::nginx_server server(chosen);
    support::gate between(server.port());
    connector direct("http://127.0.0.1:" + std::to_string(server.port()));
    std::string via = "http://127.0.0.1:" + std::to_string(between.port());
    cenote::pool<connection> pool(connector(via + "?operation_timeout=2s&connect_timeout=2s"),
                                  {.max = max_connections});
    book b;
    std::vector<std::thread> crew;
    for (unsigned i = 0; i < threads; ++i)
        crew.emplace_back([&, i] { ask_as_thread(pool, b, i + 1); });
    std::deque<asker> askers;
    asio::io_context loop;
    for (unsigned i = 0; i < coroutines; ++i) {
        asker& who = askers.emplace_back(pool, b, 100 + i);
        asio::co_spawn(loop, ask_as_coroutine(&who), asio::detached);
    }
    asio::co_spawn(loop, cancel_at_random(&askers, &b), asio::detached);
    crew.emplace_back([&] { loop.run(); });

    int most = 0;
    dice d(7);
    while (!b.over()) {
        support::pass(std::chrono::milliseconds(d() % 60));
        most = std::max(most, counted(direct));
        fault(between, d);
        ++b.faults;
    }
    for (std::thread& each : crew) each.join();

    auto number = [](const auto& of) { return static_cast<unsigned long long>(of); };
    std::printf(
        "%llu right, %llu wrong; %llu faults, %llu lost, %llu cancelled, %llu not served; "
        "at most %d connections\n",
        number(b.right), number(b.wrong), number(b.faults), number(b.failed), number(b.cancelled),
        number(b.refused), most);
    EXPECT_EQ(b.wrong, 0U);
    EXPECT_GT(b.right, 100U);
    // The gate tells the server a little later who has hung up: at most all of them.
    EXPECT_LE(most, 2 * max_connections);
    EXPECT_TRUE(support::eventually([&] { return counted(direct) <= max_connections; }));
}

}  // namespace

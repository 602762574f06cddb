// Identity echo: whoever asks sends a word of their own, and must get exactly that back, whatever
// happens to connections meanwhile.
#include <algorithm>
#include <array>
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
#include "cenote/pool.hpp"
#include "cenote/redis.hpp"
#include "connector/redis_fixture.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace cenote::redis;
using namespace redis_fixture;
using steady = std::chrono::steady_clock;
using dice = std::minstd_rand;

constexpr int max_connections = 5;
constexpr int threads = 15;
constexpr int coroutines = 15;

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
    std::string word() { return "word-" + std::to_string(++words); }
    void compare(const reply& got, const std::string& expected) {
        bool same = got.is_text() && got.text() == expected;
        ++(same ? right : wrong);
    }
};

/// Some questions whose answers are known.
struct questions {
    pipeline all;
    std::vector<std::string> answers;
    bool together = false;

    questions(book& b, dice& d) : together(d() % 4 == 0) {
        std::size_t count = 1 + d() % 4;
        for (std::size_t i = 0; i < count; ++i) {
            answers.push_back(b.word());
            if (d() % 16 != 0) {
                all.add("ECHO", answers.back());
                continue;
            }
            all.add("SET", "key-" + answers.back(), answers.back(), "PX", 5000);
            all.add("GETDEL", "key-" + answers.back());
            answers.insert(answers.end() - 1, "OK");
        }
        if (!together && d() % 32 == 0) {
            all.add("SELECT", 3);  // to be reset
            answers.emplace_back("OK");
        }
    }
    void compare(const std::vector<reply>& got, book& b) const {
        for (std::size_t i = 0; i < answers.size(); ++i) b.compare(got.at(i), answers[i]);
    }
};

void ask_as_thread(cenote::pool<connection>& pool, book& b, unsigned seed) {
    dice d(seed);
    while (!b.over()) {
        try {
            auto lease = pool.acquire_for(2s);
            questions q(b, d);
            q.compare(q.together ? lease->transaction(q.all).value() : lease->execute(q.all), b);
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

asio::awaitable<void> ask_once(asker* who) {
    auto lease = co_await who->pool->async_acquire(asio::use_awaitable);
    questions q(*who->b, who->d);
    asio::any_io_executor here = co_await asio::this_coro::executor;
    auto slot = asio::bind_cancellation_slot(who->cancel.slot(), asio::use_awaitable);
    std::vector<reply> got;
    if (q.together) {
        auto sent = lease->async_transaction(q.all);
        auto done = co_await asio::co_spawn(here, std::move(sent), slot);
        got = std::move(done.value());
    } else {
        auto sent = lease->async_execute(q.all);
        got = co_await asio::co_spawn(here, std::move(sent), slot);
    }
    q.compare(got, *who->b);
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

/// The server's own count of ours.
int counted(connection& admin) {
    std::string list = admin.command("CLIENT", "LIST", "TYPE", "normal").text();
    int count = 0;
    for (std::size_t at = 0; (at = list.find(" name=echo ", at)) != list.npos; ++at) ++count;
    return count;
}

void fault(support::gate& between, connection& admin, dice& d) {
    using ending = support::gate::ending;
    switch (d() % 8) {
        case 0: between.reset_all(); break;
        case 1: between.finish_all(); break;
        case 2: admin.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); break;
        case 3: between.cut_after(d() % 300, ending::finish); break;
        case 4: between.cut_after(d() % 300, ending::reset); break;
        case 5: between.delay(std::chrono::microseconds(d() % 3000)); break;
        case 6: between.split(); break;
        default: between.hold_replies(); break;
    }
    support::pass(std::chrono::milliseconds(1 + d() % 20));
    between.pass();
}

TEST(redis_echo, gives_everybody_their_own_word) {
    support::gate between(server().port());
    cenote::redis::connector via(
        url_of(between.port(), "?client_name=echo&operation_timeout=2s&connect_timeout=2s"));
    cenote::pool<connection> pool(via, {.max = max_connections});
    book b;
    std::vector<std::thread> crew;
    for (unsigned i = 0; i < threads; ++i)
        crew.emplace_back([&, i] { ask_as_thread(pool, b, i + 1); });
    std::deque<asker> askers;
    for (unsigned i = 0; i < coroutines; ++i) askers.emplace_back(pool, b, 100 + i);
    crew.emplace_back([&] {
        asio::io_context loop;
        for (asker& each : askers) asio::co_spawn(loop, ask_as_coroutine(&each), asio::detached);
        asio::co_spawn(loop, cancel_at_random(&askers, &b), asio::detached);
        loop.run();
    });
    connection admin = here().open();
    dice d(7);
    int most = 0;
    while (!b.over()) {
        support::pass(std::chrono::milliseconds(d() % 60));
        most = std::max(most, counted(admin));
        fault(between, admin, d);
        ++b.faults;
    }
    for (std::thread& each : crew) each.join();
    std::printf(
        "%llu right, %llu wrong; %llu faults, %llu lost, %llu cancelled, %llu not served; "
        "at most %d connections\n",
        static_cast<unsigned long long>(b.right), static_cast<unsigned long long>(b.wrong),
        static_cast<unsigned long long>(b.faults), static_cast<unsigned long long>(b.failed),
        static_cast<unsigned long long>(b.cancelled), static_cast<unsigned long long>(b.refused),
        most);
    EXPECT_EQ(b.wrong, 0U);
    EXPECT_GT(b.right, 100U);
    // The gate tells the server a little later who has hung up: at most all of them.
    EXPECT_LE(most, 2 * max_connections);
    EXPECT_TRUE(support::eventually([&] { return counted(admin) <= max_connections; }));
}

}  // namespace

// Identity echo: whoever asks sends a word of their own, and must get exactly that back, whatever
// happens to connections meanwhile.
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
#include "cenote/asio_connector.hpp"
#include "cenote/pool.hpp"
#include "connector/mariadb_place.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"

namespace cenote::mariadb {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using dice = std::minstd_rand;
using support::the_mariadb;

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
    std::atomic<std::uint64_t> inherited{0};
    std::atomic<std::uint64_t> words{0};
    std::uint64_t faults = 0;

    book() {
        if (const char* number = std::getenv("CENOTE_ECHO_QUERIES")) {
            wanted = std::strtoull(number, nullptr, 10);
            end = steady::time_point::max();
        }
    }
    bool over() const { return right >= wanted || steady::now() > end; }
    std::string word() { return "word-" + std::to_string(++words); }
    void compare(const std::string& got, const std::string& expected) {
        ++(got == expected ? right : wrong);
    }
};

constexpr const char* echo = "select ?";
constexpr const char* leave = "set @word = ?";
constexpr const char* whose = "select cast(coalesce(@word, '') as char)";
constexpr const char* many = "select concat(?, seq) from seq_1_to_20";

/// As a thread: one of the ways to ask.
void ask(connection& c, book& b, dice& d) {
    std::string word = b.word();
    if (d() % 200 == 0) c.set_timeout(std::chrono::microseconds(d() % 1000));
    switch (d() % 8) {
        case 0: {
            statement made = c.prepare(echo);
            b.compare(c.execute(made, word).scalar<std::string>(), word);
            break;
        }
        case 1: {
            cursor rows = c.stream(many, word);
            int seen = 0;
            while (auto row = rows.next())
                b.compare(row->get<std::string>(0), word + std::to_string(++seen));
            break;
        }
        case 2:
            c.execute("begin");
            b.compare(c.execute(echo, word).scalar<std::string>(), word);
            break;  // and left so
        case 3:
            if (!c.execute(whose).scalar<std::string>().empty()) ++b.inherited;
            c.execute(leave, word);
            b.compare(c.execute(whose).scalar<std::string>(), word);
            c.execute("set @word = null");
            break;
        default: b.compare(c.execute(echo, word).scalar<std::string>(), word);
    }
}

void ask_as_thread(pool<connection>& p, book& b, unsigned seed) {
    dice d(seed);
    while (!b.over()) {
        try {
            auto lease = p.acquire_for(5s);
            if (!lease->execute(whose).scalar<std::string>().empty()) ++b.inherited;
            for (auto i = d() % 12; i > 0; --i) ask(*lease, b, d);
            std::string word = b.word();
            lease->execute(leave, word);
            b.compare(lease->execute(whose).scalar<std::string>(), word);
        } catch (const server_error&) {
            ++b.failed;
        } catch (const pool_error&) {
            ++b.refused;
        }
    }
}

struct asker {
    pool<connection>* from;
    book* b;
    dice d;
    asio::cancellation_signal cancel{};

    asker(pool<connection>& p, book& seen, unsigned seed) : from(&p), b(&seen), d(seed) {}
};

asio::awaitable<void> ask_awaited(connection* c, asker* who) {
    std::string word = who->b->word();
    if (who->d() % 8 == 0) {
        cursor rows = co_await c->async_stream(many, word);
        for (int seen = 1;; ++seen) {
            auto row = co_await rows.async_next();
            if (!row) break;
            who->b->compare(row->get<std::string>(0), word + std::to_string(seen));
        }
    } else {
        sql::result got = co_await c->async_execute(echo, word);
        who->b->compare(got.scalar<std::string>(), word);
    }
}

asio::awaitable<void> ask_once(asker* who) {
    auto lease = co_await who->from->async_acquire(asio::use_awaitable);
    asio::any_io_executor here = co_await asio::this_coro::executor;
    auto slot = asio::bind_cancellation_slot(who->cancel.slot(), asio::use_awaitable);
    sql::result left = co_await lease->async_execute(whose);
    if (!left.scalar<std::string>().empty()) ++who->b->inherited;
    for (auto i = 1 + who->d() % 12; i > 0; --i) {
        auto asked = ask_awaited(&*lease, who);
        co_await asio::co_spawn(here, std::move(asked), slot);
    }
    std::string word = who->b->word();
    co_await lease->async_execute(leave, word);
    sql::result own = co_await lease->async_execute(whose);
    who->b->compare(own.scalar<std::string>(), word);
}

asio::awaitable<void> ask_as_coroutine(asker* who) {
    while (!who->b->over()) {
        try {
            co_await ask_once(who);
        } catch (const server_error&) {
            ++who->b->failed;
        } catch (const pool_error&) {
            ++who->b->refused;
        } catch (const boost::system::system_error&) {
            ++who->b->cancelled;
        }
    }
}

/// On the loop of those who ask: a signal is not for several threads.
asio::awaitable<void> cancel_at_random(std::deque<asker>* all, book* b) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    dice d(99);
    while (!b->over()) {
        timer.expires_after(std::chrono::milliseconds(2 + d() % 20));
        co_await timer.async_wait(asio::use_awaitable);
        (*all)[d() % all->size()].cancel.emit(asio::cancellation_type::terminal);
    }
}

/// Somebody who sees all connections of ours, and ends them.
options admins() {
    options o;
    o.host = the_mariadb().socket();
    o.user = "root";
    o.database = "mysql";
    return o;
}

int counted(connection& admin) {
    return admin.execute("select count(*) from information_schema.processlist where user = 'app'")
        .scalar<int>();
}

void kill_some(connection& admin) {
    sql::result all = admin.execute(
        "select id from information_schema.processlist where user = 'app' and rand() < 0.5");
    for (const sql::row& each : all) {
        try {
            admin.execute("kill " + std::to_string(each.get<std::int64_t>(0)));
        } catch (const statement_error&) {
            continue;  // gone by itself
        }
    }
}

void fault(support::gate& between, connection& admin, dice& d) {
    using ending = support::gate::ending;
    switch (d() % 8) {
        case 0: between.reset_all(); break;
        case 1: between.finish_all(); break;
        case 2: kill_some(admin); break;
        case 3: between.cut_after(d() % 500, ending::finish); break;
        case 4: between.cut_after(d() % 500, ending::reset); break;
        case 5: between.delay(std::chrono::microseconds(d() % 3000)); break;
        case 6: between.split(); break;
        default: between.hold_replies(); break;
    }
    support::pass(std::chrono::milliseconds(1 + d() % 20));
    between.pass();
}

void report(const book& b, int most) {
    auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf(
        "%llu right, %llu wrong, %llu inherited; %llu faults, %llu lost, %llu cancelled, "
        "%llu not served; at most %d connections\n",
        number(b.right), number(b.wrong), number(b.inherited), number(b.faults), number(b.failed),
        number(b.cancelled), number(b.refused), most);
}

TEST(mariadb_echo, gives_everybody_their_own_word) {
    support::gate between(the_mariadb().port());
    connector via(support::mariadb_url(between.port(), "operation_timeout=2s&connect_timeout=2s"));
    pool<connection> five(via, {.max = max_connections});
    connection admin = connector{admins()}.open();
    book b;
    std::vector<std::thread> crew;
    for (unsigned i = 0; i < threads; ++i)
        crew.emplace_back([&, i] { ask_as_thread(five, b, i + 1); });
    std::deque<asker> askers;
    for (unsigned i = 0; i < coroutines; ++i) askers.emplace_back(five, b, 100 + i);
    crew.emplace_back([&] {
        asio::io_context loop;
        for (asker& each : askers) asio::co_spawn(loop, ask_as_coroutine(&each), asio::detached);
        asio::co_spawn(loop, cancel_at_random(&askers, &b), asio::detached);
        loop.run();
    });
    dice d(7);
    int most = 0;
    while (!b.over()) {
        support::pass(std::chrono::milliseconds(d() % 200));
        most = std::max(most, counted(admin));
        fault(between, admin, d);
        ++b.faults;
    }
    for (std::thread& each : crew) each.join();
    report(b, most);
    EXPECT_EQ(b.wrong, 0u);
    EXPECT_EQ(b.inherited, 0u);
    EXPECT_GT(b.right, 1000u);
    // The server notices a little later who has hung up: at most all of them.
    EXPECT_LE(most, 2 * max_connections);
    EXPECT_TRUE(support::eventually([&] { return counted(admin) <= max_connections; }));
}

}  // namespace
}  // namespace cenote::mariadb

// Identity echo: each request has a word of its own and must get exactly that word back, while
// faults happen to the connections. This is the part that all servers share; each server brings
//
//   connection              what the pool leases
//   real()                  the server, to be restarted
//   through(port)           a connector to this port
//   ask(c, b, d)            the requests of a thread in one lease
//   ask_awaited(&c, &b, &d) those of a coroutine
//   count()                 how many connections of the pool the server counts
//   cancel_every            the longest pause between cancellations
//
// and optionally
//
//   kill_some()             has the server end some connections
//   not_a_connection()      the first bytes of connections that the server does not count
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/asio.hpp"
#include "cenote/pool.hpp"
#include "cenote/server_error.hpp"
#include "connector/echo_book.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/real_server.hpp"

namespace echo {

namespace asio = boost::asio;
using asio::awaitable;

inline constexpr int max_connections = 5;
inline constexpr unsigned threads = 15;
inline constexpr unsigned coroutines = 15;
inline constexpr int restarts = 3;
inline constexpr int restarts_needed = support::slowly ? 1 : restarts;
/// At most. Not a duration: so there is progress between two faults on a slow machine, too.
inline constexpr unsigned questions_between_faults = 1100;

/// For URLs. A request into the black hole waits that long, in vain.
inline constexpr const char* deadlines = "operation_timeout=300ms&connect_timeout=1s";

/// A connection that does not go through the gate, and is opened again after restarts.
template <class Connector>
class admin {
public:
    explicit admin(Connector to) : to_(std::move(to)) {}

    template <class Call>
    auto operator()(Call&& call) {
        try {
            if (mine_) return call(*mine_);
        } catch (const cenote::connection_error&) {
            mine_.reset();
        }
        return call(mine_.emplace(to_.open()));
    }

private:
    using connection = decltype(std::declval<Connector&>().open());

    Connector to_;
    std::optional<connection> mine_;
};

template <class Server>
class run {
public:
    explicit run(Server& of)
        : of_(&of), between_(of.real().port()), pool_(of.through(between_.port()), settings()) {
        if constexpr (requires { of.not_a_connection(); }) between_.overlook(of.not_a_connection());
    }

    void run_all() {
        std::vector<std::thread> all;
        for (unsigned i = 0; i < threads; ++i)
            all.emplace_back([this, i] { ask_as_thread(i + 1); });
        all.emplace_back([this] { ask_as_coroutines(); });
        disturb();
        for (std::thread& each : all) each.join();
        report();
        judge();
    }

private:
    /// Calls of the connector end by their own deadlines. If the pool abandoned them first, as it
    /// does on a slow machine, their connections would exist beside `max` others.
    static cenote::options settings() {
        cenote::options all = support::patient(max_connections);
        all.acquire_timeout = cenote::options{}.acquire_timeout;
        return all;
    }

    using connection = typename Server::connection;
    struct asker {
        dice d;
        asio::cancellation_signal cancel{};

        explicit asker(unsigned seed) : d(seed) {}
    };

    void ask_as_thread(unsigned seed);

    void ask_as_coroutines();
    awaitable<void> ask_as_coroutine(asker* who);
    awaitable<void> ask_cancellably(asker* who);
    awaitable<void> lease_and_ask(asker* who);
    awaitable<void> cancel_at_random(std::deque<asker>* all);

    void disturb();
    void fault(dice& d);
    void fault_at_the_gate(dice& d);
    void restart();
    void check_in_calm();

    void report();
    void judge();

    Server* of_;
    support::gate between_;
    cenote::pool<connection> pool_;
    book book_;
    unsigned faults_ = 0;
    unsigned kills_ = 0;
    int restarts_ = 0;
    int calm_checks_ = 0;
    /// Connections that the server counted: at any time, and in calm moments.
    int most_ = 0;
    int most_in_calm_ = 0;
};

template <class Server>
void run<Server>::ask_as_thread(unsigned seed) {
    dice d(seed);
    while (!book_.over()) {
        try {
            auto lease = pool_.acquire_for(5s);
            of_->ask(*lease, book_, d);
        } catch (const cenote::server_error&) {
            ++book_.lost;
        } catch (const cenote::pool_error&) {
            ++book_.not_served;
        }
    }
}

template <class Server>
void run<Server>::ask_as_coroutines() {
    asio::io_context loop;
    auto show = [](const std::exception_ptr& e) {
        if (e) std::rethrow_exception(e);
    };
    std::deque<asker> all;
    for (unsigned i = 0; i < coroutines; ++i)
        asio::co_spawn(loop, ask_as_coroutine(&all.emplace_back(100 + i)), show);
    asio::co_spawn(loop, cancel_at_random(&all), show);
    loop.run();
}

template <class Server>
awaitable<void> run<Server>::ask_as_coroutine(asker* who) {
    while (!book_.over()) {
        try {
            co_await ask_cancellably(who);
        } catch (const cenote::server_error&) {
            ++book_.lost;
        } catch (const cenote::pool_error& e) {
            ++(e.code() == cenote::errc::canceled ? book_.canceled : book_.not_served);
        } catch (const boost::system::system_error&) {
            ++book_.canceled;
        }
    }
}

/// Mostly with a lease: coroutines wait in line most of the time, where a cancellation is harmless.
template <class Server>
awaitable<void> run<Server>::ask_cancellably(asker* who) {
    asio::any_io_executor here = co_await asio::this_coro::executor;
    auto slot = asio::bind_cancellation_slot(who->cancel.slot(), asio::use_awaitable);
    if (who->d() % 8 == 0) {
        auto all = lease_and_ask(who);
        co_await asio::co_spawn(here, std::move(all), slot);
    } else {
        auto lease = co_await pool_.async_acquire(asio::use_awaitable);
        auto asked = of_->ask_awaited(&*lease, &book_, &who->d);
        co_await asio::co_spawn(here, std::move(asked), slot);
    }
}

template <class Server>
awaitable<void> run<Server>::lease_and_ask(asker* who) {
    auto lease = co_await pool_.async_acquire(asio::use_awaitable);
    co_await of_->ask_awaited(&*lease, &book_, &who->d);
}

/// On the loop of the coroutines: a cancellation signal is not thread-safe.
template <class Server>
awaitable<void> run<Server>::cancel_at_random(std::deque<asker>* all) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    dice d(99);
    while (!book_.over()) {
        timer.expires_after(d() % 1000 * Server::cancel_every / 1000);
        co_await timer.async_wait(asio::use_awaitable);
        asker& one = (*all)[d() % all->size()];
        if (!book_.calm) one.cancel.emit(asio::cancellation_type::terminal);
    }
}

template <class Server>
void run<Server>::disturb() {
    dice d(7);
    while (!book_.over()) {
        std::uint64_t until = book_.right + d() % questions_between_faults;
        support::eventually([&] { return book_.over() || book_.right >= until; }, patience);
        most_ = std::max(most_, of_->count());
        fault(d);
        if (restarts_ < restarts && book_.progress() * (restarts + 1) > restarts_ + 1) restart();
        if (++faults_ % 16 == 0 || (book_.progress() >= 1 && calm_checks_ == 0)) check_in_calm();
        book_.seen_all = restarts_ >= restarts_needed && calm_checks_ > 0;
    }
}

template <class Server>
void run<Server>::fault(dice& d) {
    if constexpr (requires { of_->kill_some(); }) {
        if (d() % 6 == 0) {
            of_->kill_some();
            ++kills_;
            return;
        }
    }
    fault_at_the_gate(d);
    // Any duration will do: no wrong answer may come during the fault or after it.
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + d() % 15));
    between_.pass();
}

template <class Server>
void run<Server>::fault_at_the_gate(dice& d) {
    using ending = support::gate::ending;
    // Rarely, since all requests then wait for their deadlines.
    if (d() % 40 == 0) return between_.black_hole();
    switch (d() % 10) {
        case 0: return between_.reset_all();
        case 1: return between_.finish_all();
        case 2: return between_.cut_after(d() % 500, ending::finish);
        case 3: return between_.cut_after(d() % 500, ending::reset);
        case 4: return between_.delay(std::chrono::microseconds(d() % 3000));
        case 5: return between_.split();
        case 6: return between_.hold_replies();
        case 7: return between_.accept_and_be_silent();
        case 8: return between_.refuse();
        // Every byte, so that the first one is wrong: these servers send each answer at once, and
        // no answer begins with the word. A client cannot notice a wrong byte in the word itself.
        default: return between_.corrupt(1);
    }
}

/// An orderly restart and a crash, in turn.
template <class Server>
void run<Server>::restart() {
    using ending = support::real_server::ending;
    of_->real().restart(restarts_++ % 2 == 0 ? ending::fast : ending::immediate);
}

/// A server notices late that a client has closed its connection: during reconnects it may count
/// more connections than exist. So the count is checked while nothing causes a reconnect: as soon
/// as the server has noticed all closed connections, it never counts more than `max_connections`.
template <class Server>
void run<Server>::check_in_calm() {
    book_.calm = true;
    std::size_t came = 0;
    EXPECT_TRUE(support::eventually([&] {
        came = between_.accepted();
        bool opening = pool_.stats().opening > 0;
        return of_->count() <= max_connections && !opening && between_.accepted() == came;
    })) << "the server keeps counting too many connections";
    for (int i = 0; i < 5; ++i) {
        int count = of_->count();
        if (between_.accepted() != came) break;
        most_in_calm_ = std::max(most_in_calm_, count);
        ++calm_checks_;
    }
    book_.calm = false;
}

template <class Server>
void run<Server>::report() {
    auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf(
        "%llu right, %llu wrong, %llu inherited in %.1f s; %u faults, %u kills, %d restarts; "
        "%llu lost, %llu canceled, %llu not served\n",
        number(book_.right), number(book_.wrong), number(book_.inherited),
        std::chrono::duration<double>(book_.took()).count(), faults_ - kills_, kills_, restarts_,
        number(book_.lost), number(book_.canceled), number(book_.not_served));
    std::printf(
        "%llu connections, at most %llu at once; the server saw at most %d in %d calm moments, "
        "%d in others\n",
        number(between_.accepted()), number(between_.most_at_once()), most_in_calm_, calm_checks_,
        most_);
}

template <class Server>
void run<Server>::judge() {
    EXPECT_EQ(book_.wrong, 0U);
    EXPECT_EQ(book_.inherited, 0U);
    EXPECT_TRUE(book_.enough());
    EXPECT_GE(restarts_, restarts_needed);
    // At all times: the gate learns of a closed connection from the kernel, at once.
    EXPECT_LE(between_.most_at_once(), std::size_t{max_connections});
    EXPECT_GT(calm_checks_, 0);
    EXPECT_LE(most_in_calm_, max_connections);
    EXPECT_TRUE(support::eventually([&] { return of_->count() <= max_connections; }));
}

template <class Server>
void run_echo() {
    Server of;
    run<Server>(of).run_all();
}

}  // namespace echo

// Identity echo: whoever asks sends a word of their own, and must get exactly that back, whatever
// happens to connections meanwhile. Here is what is the same for all servers; each brings
//
//   connection              what is lent
//   real()                  the server, to be restarted
//   through(port)           a connector to whatever is there
//   ask(c, b, d)            what a thread asks in one lease
//   ask_awaited(&c, &b, &d) what a coroutine does
//   count()                 how many connections of ours the server says there are
//   cancel_every            the longest pause; where connections are dear, a longer one
//
// and, where there is such a thing,
//
//   kill_some()             the server ends some of our connections
//   not_a_connection()      how those begin that the server does not count
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
/// At most. Not a time: however slow the machine is, there is progress between two faults.
inline constexpr unsigned questions_between_faults = 1100;

/// For URLs. Who has sent something into the black hole waits that long, in vain.
inline constexpr const char* deadlines = "operation_timeout=300ms&connect_timeout=1s";

/// Somebody who speaks to the server past the gate, and goes through restarts.
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
class trial {
public:
    explicit trial(Server& of)
        : of_(&of), between_(of.real().port()), pool_(of.through(between_.port()), settings()) {
        if constexpr (requires { of.not_a_connection(); }) between_.overlook(of.not_a_connection());
    }

    void run() {
        std::vector<std::thread> crew;
        for (unsigned i = 0; i < threads; ++i)
            crew.emplace_back([this, i] { ask_as_thread(i + 1); });
        crew.emplace_back([this] { ask_as_coroutines(); });
        disturb();
        for (std::thread& each : crew) each.join();
        report();
        judge();
    }

private:
    /// Every call of the connector ends by its own deadlines. If the pool gave up calls first, as
    /// it does on a machine that is slow enough, the connections of these would count beside `max`.
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
    void look_in_calm();

    void report();
    void judge();

    Server* of_;
    support::gate between_;
    cenote::pool<connection> pool_;
    book book_;
    unsigned faults_ = 0;
    unsigned kills_ = 0;
    int restarts_ = 0;
    int calm_looks_ = 0;
    /// As the server counts: whenever it was asked, and in calm moments.
    int most_ = 0;
    int most_in_calm_ = 0;
};

template <class Server>
void trial<Server>::ask_as_thread(unsigned seed) {
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
void trial<Server>::ask_as_coroutines() {
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
awaitable<void> trial<Server>::ask_as_coroutine(asker* who) {
    while (!book_.over()) {
        try {
            co_await ask_cancellably(who);
        } catch (const cenote::server_error&) {
            ++book_.lost;
        } catch (const cenote::pool_error& e) {
            ++(e.code() == cenote::errc::canceled ? book_.cancelled : book_.not_served);
        } catch (const boost::system::system_error&) {
            ++book_.cancelled;
        }
    }
}

/// Mostly while it holds a lease: all of them wait in line most of the time, where a cancel costs
/// nothing.
template <class Server>
awaitable<void> trial<Server>::ask_cancellably(asker* who) {
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
awaitable<void> trial<Server>::lease_and_ask(asker* who) {
    auto lease = co_await pool_.async_acquire(asio::use_awaitable);
    co_await of_->ask_awaited(&*lease, &book_, &who->d);
}

/// On the loop of those who ask: a signal is not for several threads.
template <class Server>
awaitable<void> trial<Server>::cancel_at_random(std::deque<asker>* all) {
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
void trial<Server>::disturb() {
    dice d(7);
    while (!book_.over()) {
        std::uint64_t until = book_.right + d() % questions_between_faults;
        support::eventually([&] { return book_.over() || book_.right >= until; }, patience);
        most_ = std::max(most_, of_->count());
        fault(d);
        if (restarts_ < restarts && book_.progress() * (restarts + 1) > restarts_ + 1) restart();
        if (++faults_ % 16 == 0 || (book_.progress() >= 1 && calm_looks_ == 0)) look_in_calm();
        book_.seen_all = restarts_ >= restarts_needed && calm_looks_ > 0;
    }
}

template <class Server>
void trial<Server>::fault(dice& d) {
    if constexpr (requires { of_->kill_some(); }) {
        if (d() % 6 == 0) {
            of_->kill_some();
            ++kills_;
            return;
        }
    }
    fault_at_the_gate(d);
    // Nothing depends on how long it lasts: all is well while it does and afterwards.
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + d() % 15));
    between_.pass();
}

template <class Server>
void trial<Server>::fault_at_the_gate(dice& d) {
    using ending = support::gate::ending;
    // Seldom, since all wait for their deadlines then.
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
        // Every byte, so that the first is a wrong one: these servers send each answer at once, and
        // no answer begins with what was asked. That a byte of the word itself is another one, no
        // client can notice.
        default: return between_.corrupt(1);
    }
}

/// As it is done by people, and as it happens to them.
template <class Server>
void trial<Server>::restart() {
    using ending = support::real_server::ending;
    of_->real().restart(restarts_++ % 2 == 0 ? ending::fast : ending::immediate);
}

/// A server learns that a client has hung up some time after it did, and counts it meanwhile: with
/// reconnects on their way it may count more than there are, whatever the pool does. So what it
/// counts is looked at when nobody is given a reason to reconnect, and nobody does: then, as soon
/// as it has noticed all who left, it never counts more than there may be.
template <class Server>
void trial<Server>::look_in_calm() {
    book_.calm = true;
    std::size_t came = 0;
    EXPECT_TRUE(support::eventually([&] {
        came = between_.accepted();
        bool opening = pool_.stats().opening > 0;
        return of_->count() <= max_connections && !opening && between_.accepted() == came;
    })) << "the server keeps counting more than there may be";
    for (int i = 0; i < 5; ++i) {
        int count = of_->count();
        if (between_.accepted() != came) break;
        most_in_calm_ = std::max(most_in_calm_, count);
        ++calm_looks_;
    }
    book_.calm = false;
}

template <class Server>
void trial<Server>::report() {
    auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
    std::printf(
        "%llu right, %llu wrong, %llu inherited in %.1f s; %u faults, %u kills, %d restarts; "
        "%llu lost, %llu cancelled, %llu not served\n",
        number(book_.right), number(book_.wrong), number(book_.inherited),
        std::chrono::duration<double>(book_.took()).count(), faults_ - kills_, kills_, restarts_,
        number(book_.lost), number(book_.cancelled), number(book_.not_served));
    std::printf(
        "%llu connections, at most %llu at once; the server saw at most %d in %d calm moments, "
        "%d in others\n",
        number(between_.accepted()), number(between_.most_at_once()), most_in_calm_, calm_looks_,
        most_);
}

template <class Server>
void trial<Server>::judge() {
    EXPECT_EQ(book_.wrong, 0U);
    EXPECT_EQ(book_.inherited, 0U);
    EXPECT_TRUE(book_.enough());
    EXPECT_GE(restarts_, restarts_needed);
    // At all times, faults or not: here, too, somebody is counted until they hang up, but it is
    // the kernel that tells, at once.
    EXPECT_LE(between_.most_at_once(), std::size_t{max_connections});
    EXPECT_GT(calm_looks_, 0);
    EXPECT_LE(most_in_calm_, max_connections);
    EXPECT_TRUE(support::eventually([&] { return of_->count() <= max_connections; }));
}

template <class Server>
void try_out() {
    Server of;
    trial<Server>(of).run();
}

}  // namespace echo

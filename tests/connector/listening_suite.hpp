// Streams of notifications, for all servers and both ways to wait.
//
// A place is made with a port and the size of its pool. It has: server(); port(); a stream() beside
// that pool and a stream_within() it, of whose connections leased() are in use, blocking and
// awaited; expect_clean() for the pool's next connection; send() and send_many() to a channel;
// kill() for the listeners' connections; close() for the owner of the streams, which ends them at
// once or, unless close_is_noticed, at the next loss; payloads() that the server accepts.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/listening.hpp"
#include "connector/awaiting.hpp"
#include "database/canceling.hpp"
#include "support/clock.hpp"
#include "support/gate.hpp"
#include "support/patience.hpp"
#include "support/patient.hpp"
#include "support/real_server.hpp"
#include "support/time_lapse.hpp"

namespace listening {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using cenote::channel_list;
using cenote::listen_options;
using cenote::notification;
using cenote::notifications;
using support::eventually;

/// Probes rarely, and replies may take long.
inline constexpr listen_options patiently{.probe_after = 10min, .reply_timeout = support::plenty};

inline notification heard(std::string channel, std::string payload) {
    return {.channel = std::move(channel), .payload = std::move(payload)};
}
inline const notification gap{.channel = {}, .payload = {}, .missed = true};

struct blocking {
    static std::optional<notification> next(notifications& from) { return from.next(); }
    static std::optional<notification> next(notifications& from, std::chrono::nanoseconds time) {
        return from.next(time);
    }
    template <class Place>
    static notifications open(Place& at, const channel_list& to, listen_options how = patiently) {
        return at.stream(to, how);
    }
    template <class Place>
    static notifications open_within(Place& at, const channel_list& to) {
        return at.stream_within(to, patiently);
    }
};

/// A loop that outlives all threads that post to it, as in a service: a thread of a pool may still
/// use it when its last handler has run. A child process makes loops of its own.
class kept_loop {
public:
    kept_loop() {
        std::lock_guard lock(mutex());
        auto& unused = all_unused()[::getpid()];
        if (unused.empty()) unused.push_back(new asio::io_context);
        loop_ = unused.back();
        unused.pop_back();
    }
    ~kept_loop() {
        std::lock_guard lock(mutex());
        all_unused()[::getpid()].push_back(loop_);
    }
    kept_loop(const kept_loop&) = delete;
    kept_loop& operator=(const kept_loop&) = delete;

    asio::io_context& operator*() const { return *loop_; }

private:
    static std::mutex& mutex() {
        static std::mutex one;
        return one;
    }
    static std::map<pid_t, std::vector<asio::io_context*>>& all_unused() {
        static auto& never_destroyed = *new std::map<pid_t, std::vector<asio::io_context*>>;
        return never_destroyed;
    }

    asio::io_context* loop_;
};

template <class T>
T await(asio::awaitable<T> what) {
    kept_loop loop;
    return support::await_on(*loop, std::move(what));
}

struct awaited {
    static std::optional<notification> next(notifications& from) {
        return listening::await(from.async_next());
    }
    static std::optional<notification> next(notifications& from, std::chrono::nanoseconds time) {
        return listening::await(from.async_next_for(time));
    }
    template <class Place>
    static notifications open(Place& at, const channel_list& to, listen_options how = patiently) {
        return listening::await(at.async_stream(to, how));
    }
    template <class Place>
    static notifications open_within(Place& at, const channel_list& to) {
        return listening::await(at.async_stream_within(to, patiently));
    }
};

template <class Place, class Form>
struct kind {
    using place = Place;
    using form = Form;
};

/// A wait on a thread of its own.
template <class Form>
class waiting {
public:
    explicit waiting(notifications& from)
        : thread_([this, &from] {
              try {
                  got_ = Form::next(from);
              } catch (...) {
                  error_ = std::current_exception();
              }
              over_ = true;
          }) {}
    ~waiting() {
        if (thread_.joinable()) thread_.join();
    }
    waiting(const waiting&) = delete;
    waiting& operator=(const waiting&) = delete;

    bool over() const { return over_; }
    std::optional<notification> end() {
        thread_.join();
        if (error_ != nullptr) std::rethrow_exception(error_);
        return got_;
    }

private:
    std::optional<notification> got_;
    std::exception_ptr error_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

template <class Kind>
struct any_stream : testing::Test {
    using form = typename Kind::form;
    using place = typename Kind::place;

    static std::optional<notification> next(notifications& from) { return form::next(from); }

    /// Nothing has come, and nothing has ended.
    static void expect_nothing(notifications& from) {
        EXPECT_EQ(form::next(from, 0ns), std::nullopt);
        EXPECT_FALSE(from.stopped());
    }
};
TYPED_TEST_SUITE_P(any_stream);

TYPED_TEST_P(any_stream, brings_what_is_sent_to_its_channels) {
    typename TestFixture::place at;
    notifications both = TestFixture::form::open(at, {"news", "prices"});
    this->expect_nothing(both);
    at.send("news", "first");
    at.send("prices", "second");
    at.send("other", "not for this one");
    at.send("news", "");
    EXPECT_EQ(this->next(both), heard("news", "first"));
    EXPECT_EQ(this->next(both), heard("prices", "second"));
    EXPECT_EQ(this->next(both), heard("news", ""));
    this->expect_nothing(both);
    EXPECT_EQ(both.control().stats().leased, 1U);
    both.stop();
    EXPECT_TRUE(both.stopped());
    EXPECT_EQ(this->next(both), std::nullopt);
    EXPECT_TRUE(eventually([&] { return both.control().stats().total == 0; }));
}

TYPED_TEST_P(any_stream, brings_each_byte) {
    typename TestFixture::place at;
    notifications all = TestFixture::form::open(at, "news");
    for (const std::string& each : at.payloads()) {
        at.send("news", each);
        EXPECT_EQ(this->next(all), heard("news", each));
    }
}

TYPED_TEST_P(any_stream, brings_many_in_order) {
    typename TestFixture::place at;
    notifications all = TestFixture::form::open(at, "news");
    constexpr int count = 100'000;
    at.send_many("news", count);
    int right = 0;
    auto take = [&]() -> asio::awaitable<void> {
        while (right < count) {
            std::optional<notification> one = co_await all.async_next();
            if (one != heard("news", std::to_string(right + 1))) co_return;
            ++right;
        }
    };
    if constexpr (std::is_same_v<typename TestFixture::form, awaited>) {
        listening::await(take());
    } else {
        while (right < count && all.next() == heard("news", std::to_string(right + 1))) ++right;
    }
    EXPECT_EQ(right, count);
    this->expect_nothing(all);
}

TYPED_TEST_P(any_stream, tells_once_that_it_was_away) {
    typename TestFixture::place at;
    notifications all = TestFixture::form::open(at, "news");
    for (int round = 0; round < 3; ++round) {
        at.kill();
        at.send("news", "missed");
        EXPECT_EQ(this->next(all), gap);
        this->expect_nothing(all);
        at.send("news", std::to_string(round));
        EXPECT_EQ(this->next(all), heard("news", std::to_string(round)));
    }
    EXPECT_EQ(all.control().stats().opened, 4U);
}

TYPED_TEST_P(any_stream, brings_what_came_before_it_was_away) {
    typename TestFixture::place at;
    notifications all = TestFixture::form::open(at, "news");
    at.send_many("news", 2);
    EXPECT_EQ(this->next(all), heard("news", "1"));
    at.kill();
    EXPECT_EQ(this->next(all), heard("news", "2"));
    EXPECT_EQ(this->next(all), gap);
    this->expect_nothing(all);
}

TYPED_TEST_P(any_stream, survives_a_restart_of_the_server) {
    typename TestFixture::place at;
    for (auto how : {support::real_server::ending::fast, support::real_server::ending::immediate}) {
        notifications all = TestFixture::form::open(at, "news");
        waiting<typename TestFixture::form> wait(all);
        at.server().stop(how);
        EXPECT_TRUE(eventually([&] { return all.control().stats().open_failed > 0; }));
        EXPECT_FALSE(wait.over());
        at.server().start();
        EXPECT_EQ(wait.end(), gap);
        at.send("news", "again");
        EXPECT_EQ(this->next(all), heard("news", "again"));
    }
}

/// The deadline of a wait also ends the attempts to connect again, and does not hide the gap.
TYPED_TEST_P(any_stream, ends_a_wait_in_time_while_the_server_is_away) {
    typename TestFixture::place at;
    notifications all = TestFixture::form::open(at, "news");
    at.server().stop();
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(TestFixture::form::next(all, 50ms), std::nullopt);
        EXPECT_FALSE(all.stopped());
    }
    at.server().start();
    EXPECT_EQ(this->next(all), gap);
    this->expect_nothing(all);
}

TYPED_TEST_P(any_stream, notices_a_dead_server_by_its_probe) {
    support::stopped_clock time;
    support::gate between(TestFixture::place::port());
    typename TestFixture::place at(between.port());
    notifications all =
        TestFixture::form::open(at, "news", {.probe_after = 30s, .reply_timeout = 1min});
    waiting<typename TestFixture::form> wait(all);
    between.black_hole();
    between.refuse();
    EXPECT_TRUE(eventually([&] {
        if (all.control().stats().open_failed > 0) return true;
        time.advance(500ms);
        return false;
    }));
    between.pass();
    // What the server replies to takes no time, not even on a busy machine.
    EXPECT_TRUE(support::time_passes_in_line(time, all.control(), [&] { return wait.over(); }));
    EXPECT_EQ(wait.end(), gap);
    at.send("news", "alive");
    EXPECT_EQ(this->next(all), heard("news", "alive"));
}

TYPED_TEST_P(any_stream, stays_connected_while_a_quiet_server_replies) {
    support::stopped_clock time;
    typename TestFixture::place at;
    notifications all =
        TestFixture::form::open(at, "news", {.probe_after = 1s, .reply_timeout = 10min});
    for (int i = 0; i < 20; ++i) {
        time.advance(1500ms);
        this->expect_nothing(all);  // probes, or reads the reply
        at.send("news", std::to_string(i));
        EXPECT_EQ(this->next(all), heard("news", std::to_string(i)));
    }
    EXPECT_EQ(all.control().stats().opened, 1U);
}

TYPED_TEST_P(any_stream, is_stopped_while_it_waits) {
    typename TestFixture::place at;
    for (int round = 0; round < support::rounds(30); ++round) {
        notifications all = TestFixture::form::open(at, "news");
        waiting<typename TestFixture::form> wait(all);
        for (int i = 0; i < round * 10; ++i) std::this_thread::yield();
        all.stop();
        EXPECT_EQ(wait.end(), std::nullopt);
        EXPECT_TRUE(all.stopped());
        EXPECT_TRUE(eventually([&] { return all.control().stats().leased == 0; }));
    }
}

TYPED_TEST_P(any_stream, is_stopped_while_the_server_is_away) {
    typename TestFixture::place at;
    notifications all = TestFixture::form::open(at, "news");
    waiting<typename TestFixture::form> wait(all);
    at.server().stop();
    EXPECT_TRUE(eventually([&] { return all.control().stats().waiting > 0; }));
    all.stop();
    EXPECT_EQ(wait.end(), std::nullopt);
    EXPECT_TRUE(all.stopped());
    at.server().start();
}

TYPED_TEST_P(any_stream, ends_when_its_owner_ends) {
    typename TestFixture::place at;
    notifications idle = TestFixture::form::open_within(at, "news");
    notifications all = TestFixture::form::open_within(at, "news");
    waiting<typename TestFixture::form> wait(all);
    at.close();
    if (!at.close_is_noticed) at.kill();
    EXPECT_EQ(wait.end(), std::nullopt);
    EXPECT_TRUE(all.stopped());
    EXPECT_EQ(this->next(idle), std::nullopt);
    EXPECT_TRUE(idle.stopped());
}

TYPED_TEST_P(any_stream, leaves_nothing_to_the_next_lease) {
    typename TestFixture::place at(TestFixture::place::port(), 1);
    for (int round = 0; round < 5; ++round) {
        {
            notifications all = TestFixture::form::open_within(at, "news");
            EXPECT_EQ(at.leased(), 1U);
            at.send_many("news", 1000);
            if (round > 0) {
                EXPECT_EQ(this->next(all), heard("news", "1"));
            }
        }
        at.send_many("news", 10);
        for (int i = 0; i < 10; ++i) at.expect_clean();
    }
    EXPECT_TRUE(eventually([&] { return at.leased() == 0; }));
}

TYPED_TEST_P(any_stream, has_a_connection_of_its_own_after_a_fork) {
    typename TestFixture::place at;
    notifications all = TestFixture::form::open(at, "news");
    notifications ready = TestFixture::form::open(at, "child");
    at.send("news", "for both");
    pid_t child = ::fork();
    if (child == 0) {
        bool right = this->next(all) == gap;
        at.send("child", "ready");
        right = right && this->next(all) == heard("news", "second");
        all.stop();
        right = right && this->next(all) == std::nullopt;
        ::_exit(right ? 0 : 1);
    }
    EXPECT_EQ(this->next(ready), heard("child", "ready"));
    EXPECT_EQ(this->next(all), heard("news", "for both"));
    at.send("news", "second");
    EXPECT_EQ(this->next(all), heard("news", "second"));
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    at.send("news", "third");
    EXPECT_EQ(this->next(all), heard("news", "third"));
    EXPECT_EQ(all.control().stats().leased, ready.control().stats().leased);
    at.expect_clean();
}

REGISTER_TYPED_TEST_SUITE_P(any_stream, brings_what_is_sent_to_its_channels, brings_each_byte,
                            brings_many_in_order, tells_once_that_it_was_away,
                            brings_what_came_before_it_was_away, survives_a_restart_of_the_server,
                            ends_a_wait_in_time_while_the_server_is_away,
                            notices_a_dead_server_by_its_probe,
                            stays_connected_while_a_quiet_server_replies, is_stopped_while_it_waits,
                            is_stopped_while_the_server_is_away, ends_when_its_owner_ends,
                            leaves_nothing_to_the_next_lease,
                            has_a_connection_of_its_own_after_a_fork);

// Awaited only.

template <class Place>
struct any_canceled_stream : testing::Test {};
TYPED_TEST_SUITE_P(any_canceled_stream);

/// Whether an operation was under way when it was canceled after this many steps of its loop.
inline bool was_canceled(int steps, asio::awaitable<void> what) {
    auto end = cenote::conformance::canceled_after(steps, std::move(what));
    EXPECT_TRUE(!end || *end == nullptr || cenote::conformance::is_cancellation(*end)) << steps;
    return end.has_value();
}

/// Not by the place: g++ 12 warns if that is a local type.
inline asio::awaitable<void> open_and_take(
    const std::function<asio::awaitable<notifications>()>* open,
    const std::function<void()>* send) {
    notifications all = co_await (*open)();
    (*send)();
    co_await all.async_next();
}

TYPED_TEST_P(any_canceled_stream, returns_its_connection) {
    TypeParam at;
    std::function<asio::awaitable<notifications>()> open = [&] {
        return at.async_stream_within("news", patiently);
    };
    std::function<void()> send = [&] { at.send("news", "one"); };
    int steps = 1;  // it has begun
    for (bool went_on = true; went_on; ++steps) {
        went_on = was_canceled(steps, open_and_take(&open, &send));
        EXPECT_TRUE(eventually([&] { return at.leased() == 0; })) << steps;
        at.expect_clean();
    }
    EXPECT_GT(steps, 3);
}

inline asio::awaitable<void> take_all(notifications* from, int* right, int count) {
    while (*right < count) {
        std::optional<notification> one = co_await from->async_next();
        if (one != heard("news", std::to_string(*right + 1)))
            throw std::runtime_error("a notification is missing");
        ++*right;
    }
}

TYPED_TEST_P(any_canceled_stream, loses_no_notification) {
    TypeParam at;
    notifications all = at.stream("news", patiently);
    int right = 0;
    int sent = 0;
    for (int steps = 0; sent < 100; ++steps) {
        if (right == sent) at.send("news", std::to_string(++sent));
        was_canceled(1 + steps % 4, take_all(&all, &right, sent));
    }
    listening::await(take_all(&all, &right, sent));
    EXPECT_EQ(right, sent);
    EXPECT_EQ(all.control().stats().opened, 1U);
}

inline asio::awaitable<void> take_gap(notifications* from, bool* done) {
    std::optional<notification> one = co_await from->async_next();
    if (one != gap) throw std::runtime_error("no gap");
    *done = true;
}

TYPED_TEST_P(any_canceled_stream, still_tells_that_it_was_away) {
    TypeParam at;
    notifications all = at.stream("news", patiently);
    bool took_gap = false;
    int steps = 1;
    for (bool went_on = true; went_on; ++steps) {
        at.kill();
        went_on = was_canceled(steps, take_gap(&all, &took_gap));
        if (!std::exchange(took_gap, false)) {
            EXPECT_EQ(all.next(), gap) << steps;
        }
        EXPECT_EQ(all.next(0ns), std::nullopt) << steps;
    }
    EXPECT_GT(steps, 3);
}

TYPED_TEST_P(any_canceled_stream, ends_with_its_loop) {
    TypeParam at;
    notifications all = at.stream("news", patiently);
    {
        asio::io_context loop;
        bool never = false;
        asio::co_spawn(loop, take_gap(&all, &never), [](const std::exception_ptr&) {});
        loop.poll();
    }
    at.send("news", "later");
    EXPECT_EQ(all.next(), heard("news", "later"));
}

TYPED_TEST_P(any_canceled_stream, ends_with_its_handle) {
    TypeParam at;
    asio::io_context loop;
    bool ended = false;
    {
        notifications all = at.stream_within("news", patiently);
        auto end = [&](const std::exception_ptr& e, const std::optional<notification>& got) {
            EXPECT_EQ(e, nullptr);
            EXPECT_EQ(got, std::nullopt);
            ended = true;
        };
        all.async_next(asio::bind_executor(loop, end));
        loop.poll();
        EXPECT_THROW(static_cast<void>(all.next(0ns)), std::logic_error);
        EXPECT_EQ(at.leased(), 1U);
    }
    loop.run();
    EXPECT_TRUE(ended);
    EXPECT_TRUE(eventually([&] { return at.leased() == 0; }));
}

TYPED_TEST_P(any_canceled_stream, obeys_a_stop_token) {
    TypeParam at;
    notifications all = at.stream("news", patiently);
    for (int round = 0; round < 20; ++round) {
        std::stop_source stop;
        std::optional<notification> got;
        std::thread waits([&] { got = all.next(stop.get_token()); });
        for (int i = 0; i < round * 10; ++i) std::this_thread::yield();
        stop.request_stop();
        waits.join();
        EXPECT_EQ(got, std::nullopt);
        EXPECT_FALSE(all.stopped());
    }
    at.send("news", "after");
    EXPECT_EQ(all.next(std::stop_source().get_token()), heard("news", "after"));
    at.server().stop();
    std::stop_source stop;
    std::thread waits([&] { EXPECT_EQ(all.next(stop.get_token()), std::nullopt); });
    EXPECT_TRUE(eventually([&] { return all.control().stats().waiting > 0; }));
    stop.request_stop();
    waits.join();
    at.server().start();
    EXPECT_EQ(all.next(), gap);
}

REGISTER_TYPED_TEST_SUITE_P(any_canceled_stream, returns_its_connection, loses_no_notification,
                            still_tells_that_it_was_away, ends_with_its_loop, ends_with_its_handle,
                            obeys_a_stop_token);

}  // namespace listening

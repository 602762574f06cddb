// Tests each command of the gate with an echo server.
#include "support/gate.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>

#include <gmock/gmock.h>

#include "support/backend.hpp"
#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/tcp_client.hpp"
#include "support/tcp_server.hpp"
#include "support/warded_process.hpp"

namespace {

using namespace support;

/// Echoes all bytes, and counts how its connections ended.
class echo_server {
public:
    std::uint16_t port() const { return server_.port(); }
    int accepted() const { return server_.accepted(); }
    int finished() const { return finished_; }
    int reset() const { return reset_; }

private:
    void serve(int fd) {
        char some[4096];
        ssize_t got = 0;
        while ((got = ::recv(fd, some, sizeof some, 0)) > 0)
            if (::send(fd, some, static_cast<std::size_t>(got), MSG_NOSIGNAL) != got) break;
        ++(got == 0 ? finished_ : reset_);
    }

    std::atomic<int> finished_{0};
    std::atomic<int> reset_{0};
    tcp_server server_{[this](int fd) { serve(fd); }};  // last: its threads use the others
};

struct gate_verb : testing::Test {
    echo_server server;
    gate between{server.port()};

    /// A client that has already received a reply.
    tcp_client regular() {
        tcp_client client(between.port());
        client.say("hello");
        EXPECT_EQ(client.hear(5), "hello");
        return client;
    }
};

TEST_F(gate_verb, passes_large_transfers_in_both_directions) {
    tcp_client client(between.port());
    std::string much;
    while (much.size() < 4U << 20) much += std::to_string(much.size()) + ",";
    std::thread saying([&] {
        client.say(much);
        ::shutdown(client.get(), SHUT_WR);
    });
    EXPECT_TRUE(client.hear_all() == much);
    saying.join();
    EXPECT_EQ(client.end(), ended::finished);
    EXPECT_TRUE(eventually([&] { return server.finished() == 1; }));
}

TEST_F(gate_verb, counts_present_and_accepted_connections) {
    {
        tcp_client one(between.port());
        tcp_client two(between.port());
        EXPECT_TRUE(eventually([&] { return between.connections() == 2; }));
        EXPECT_EQ(between.accepted(), 2U);
    }
    EXPECT_TRUE(eventually([&] { return between.connections() == 0; }));
    EXPECT_EQ(between.accepted(), 2U);
    EXPECT_TRUE(eventually([&] { return server.finished() == 2; }));
}

TEST_F(gate_verb, counts_the_most_at_once_without_closed_connections) {
    for (int i = 0; i < 200; ++i) {
        tcp_client one(between.port());
        tcp_client two(between.port());
        two.say("unread");
    }
    EXPECT_TRUE(eventually([&] { return between.accepted() == 400; }));
    EXPECT_LE(between.most_at_once(), 2U);
    {
        tcp_client one = regular();
        tcp_client two = regular();
        tcp_client three = regular();
    }
    EXPECT_EQ(between.connections(), 0U);
    EXPECT_EQ(between.most_at_once(), 3U);
}

TEST_F(gate_verb, counts_clients_that_have_not_closed_a_finished_connection) {
    tcp_client client = regular();
    between.finish_all();
    EXPECT_EQ(client.end(), ended::finished);
    EXPECT_EQ(between.connections(), 1U);
    tcp_client another = regular();
    EXPECT_EQ(between.most_at_once(), 2U);
}

TEST_F(gate_verb, counts_connections_while_silent_and_in_the_black_hole) {
    between.accept_and_be_silent();
    for (int i = 0; i < 50; ++i) {
        tcp_client client(between.port());
        client.say("unread");
    }
    between.pass();
    between.black_hole();
    for (int i = 0; i < 50; ++i) tcp_client client(between.port());
    EXPECT_TRUE(eventually([&] { return between.accepted() == 100; }));
    EXPECT_LE(between.most_at_once(), 1U);
}

TEST_F(gate_verb, does_not_count_overlooked_connections) {
    between.overlook("bye");
    tcp_client client = regular();
    tcp_client undecided(between.port());
    tcp_client leaving(between.port());
    leaving.say("bye!");
    EXPECT_EQ(leaving.hear(4), "bye!");
    EXPECT_EQ(between.connections(), 1U);
    undecided.say("hello");
    EXPECT_EQ(undecided.hear(5), "hello");
    EXPECT_EQ(between.connections(), 2U);
    EXPECT_EQ(between.most_at_once(), 2U);
    EXPECT_EQ(between.accepted(), 3U);
}

TEST_F(gate_verb, delay_delays_replies) {
    stopped_clock time;
    tcp_client client = regular();
    between.delay(60ms);
    client.say("late");
    ASSERT_TRUE(eventually([&] { return between.buffered() == 4; }));
    time.advance(59ms);
    EXPECT_TRUE(client.hears_nothing());
    time.advance(1ms);
    EXPECT_EQ(client.hear(4), "late");
    between.delay(1h);
    client.say("never");
    EXPECT_TRUE(client.hears_nothing());
    between.pass();
    EXPECT_EQ(client.hear(5), "never");
}

TEST_F(gate_verb, throttle_limits_the_rate_of_replies) {
    stopped_clock time;
    tcp_client client = regular();
    between.throttle(1000);
    client.say(std::string(100, 'x'));
    // The first portion is sent at once, each next one 10 ms after the last.
    for (int portion = 0; portion < 10; ++portion) {
        EXPECT_EQ(client.hear(10).size(), 10U);
        EXPECT_EQ(client.hear(1, 5ms), "");
        time.advance(10ms);
    }
    between.throttle(1);
    client.say("slow");
    EXPECT_EQ(client.hear(1), "s");
    between.pass();
    EXPECT_EQ(client.hear(3), "low");
}

TEST_F(gate_verb, split_makes_each_byte_a_segment) {
    tcp_client client = regular();
    auto segments = [&] {
        tcp_info info{};
        socklen_t size = sizeof info;
        checked(::getsockopt(client.get(), IPPROTO_TCP, TCP_INFO, &info, &size), "getsockopt");
        return info.tcpi_data_segs_in;
    };
    auto before = segments();
    between.split();
    std::string text(200, 'x');
    client.say(text);
    EXPECT_EQ(client.hear(200), text);
    EXPECT_GE(segments() - before, 200U);
}

TEST_F(gate_verb, hold_keeps_replies_until_let_go) {
    tcp_client client = regular();
    between.hold_replies();
    client.say("one");
    tcp_client another(between.port());
    another.say("two");
    EXPECT_TRUE(eventually([&] { return between.buffered() == 6; }));
    EXPECT_TRUE(client.hears_nothing());
    EXPECT_TRUE(another.hears_nothing());
    between.let_go();
    EXPECT_EQ(client.hear(3), "one");
    EXPECT_EQ(another.hear(3), "two");
}

TEST_F(gate_verb, silence_neither_reads_nor_replies_and_loses_nothing) {
    tcp_client client = regular();
    between.accept_and_be_silent();
    tcp_client another(between.port());
    client.say("one");
    another.say("two");
    EXPECT_TRUE(client.hears_nothing());
    EXPECT_TRUE(another.hears_nothing());
    EXPECT_TRUE(eventually([&] { return between.connections() == 2; }));
    EXPECT_EQ(server.accepted(), 1);
    between.pass();
    EXPECT_EQ(client.hear(3), "one");
    EXPECT_EQ(another.hear(3), "two");
}

TEST_F(gate_verb, cut_ends_a_connection_within_a_reply) {
    tcp_client client = regular();
    between.cut_after(3);
    client.say("abcdef");
    EXPECT_EQ(client.hear_all(), "abc");
    EXPECT_EQ(client.end(), ended::finished);
    EXPECT_TRUE(eventually([&] { return server.finished() == 1; }));

    between.cut_after(2, gate::ending::reset);
    tcp_client another(between.port());
    another.say("abcdef");
    EXPECT_EQ(another.hear_all(), "ab");
    EXPECT_EQ(another.end(), ended::reset);
    between.pass();
    regular();
}

TEST_F(gate_verb, corrupt_changes_every_nth_byte_of_replies) {
    tcp_client client = regular();
    between.corrupt(3);
    client.say("abcdefg");
    std::string wrong = "abcdefg";
    for (std::size_t at : {2U, 5U}) wrong[at] = static_cast<char>(~wrong[at]);
    EXPECT_EQ(client.hear(7), wrong);
    between.pass();
    client.say("abcdefg");
    EXPECT_EQ(client.hear(7), "abcdefg");
}

TEST_F(gate_verb, black_hole_discards_everything_without_notice) {
    tcp_client client = regular();
    auto leaving = std::make_unique<tcp_client>(regular());
    between.black_hole();
    tcp_client newcomer(between.port());
    client.say("lost");
    newcomer.say("lost");
    EXPECT_TRUE(client.hears_nothing());
    EXPECT_TRUE(newcomer.hears_nothing());
    leaving.reset();
    EXPECT_TRUE(eventually([&] { return between.connections() == 2; }));
    EXPECT_TRUE(for_a_while([&] { return server.finished() + server.reset() == 0; }));
    between.pass();
    EXPECT_TRUE(eventually([&] { return server.finished() == 1; }));
    client.say("found");
    EXPECT_EQ(client.hear(5), "found");
    EXPECT_TRUE(newcomer.hears_nothing());
    EXPECT_EQ(server.accepted(), 2);
}

TEST_F(gate_verb, refuse_keeps_existing_connections) {
    tcp_client client = regular();
    between.refuse();
    EXPECT_FALSE(listens(between.port()));
    client.say("still");
    EXPECT_EQ(client.hear(5), "still");
    between.pass();
    regular();
}

TEST_F(gate_verb, finish_all_is_an_orderly_end_for_both_sides) {
    tcp_client client = regular();
    tcp_client another = regular();
    between.finish_all();
    EXPECT_EQ(client.end(), ended::finished);
    EXPECT_EQ(another.end(), ended::finished);
    EXPECT_TRUE(eventually([&] { return server.finished() == 2; }));
    regular();
}

TEST_F(gate_verb, reset_all_is_a_reset_for_both_sides) {
    tcp_client client = regular();
    between.reset_all();
    EXPECT_EQ(client.end(), ended::reset);
    EXPECT_TRUE(eventually([&] { return server.reset() == 1; }));
    EXPECT_EQ(between.connections(), 0U);
    regular();
}

/// When finish_all() and reset_all() return, the clients' kernel already knows the end.
TEST_F(gate_verb, ends_are_visible_to_clients_at_once) {
    auto has_ended = [](const tcp_client& client) {
        char one = 0;
        return ::recv(client.get(), &one, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
    };
    for (int i = 0; i < rounds(30); ++i)
        for (auto ends : {&gate::finish_all, &gate::reset_all}) {
            tcp_client client = regular();
            (between.*ends)();
            EXPECT_TRUE(has_ended(client));
        }
}

/// A client that does not read sees the end only after the unread bytes.
TEST_F(gate_verb, finish_all_does_not_wait_for_a_client_that_does_not_read) {
    tcp_client client(between.port());
    std::string much(64U << 20, 'x');
    std::thread saying([&] { client.say(much); });
    EXPECT_TRUE(eventually([&] { return between.buffered() >= 256U * 1024; }));
    between.finish_all();
    saying.join();
    EXPECT_EQ(client.hear(1), "x");
}

TEST_F(gate_verb, turns_are_counted) {
    EXPECT_EQ(between.turns(), 0u);
    tcp_client one = regular();
    EXPECT_EQ(between.turns(), 1u);
    between.hold_replies();
    one.say("again");
    EXPECT_TRUE(eventually([&] { return between.buffered() == 5; }));
    between.let_go();
    EXPECT_EQ(one.hear(5), "again");
    EXPECT_EQ(between.turns(), 2u);
    tcp_client other = regular();
    EXPECT_EQ(between.turns(), 3u);
}

TEST(gate, resets_clients_if_there_is_no_server) {
    reserved_port unused;
    gate between(unused.number());
    tcp_client client(between.port());
    EXPECT_EQ(client.end(), ended::reset);
}

}  // namespace

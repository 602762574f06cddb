// A TCP proxy on 127.0.0.1 that simulates network faults between a client and a real server.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace support {

/// One thread serves all connections. A command applies to existing and new connections from its
/// return until pass(); commands add up. "Replies" are the bytes from the server.
class gate {
public:
    explicit gate(std::uint16_t server_port);
    gate(const gate&) = delete;
    gate& operator=(const gate&) = delete;
    ~gate();

    /// Where clients connect; never changes.
    std::uint16_t port() const;

    /// Ends all commands; existing connections continue.
    void pass();

    // Delays: nothing is lost.

    void delay(std::chrono::nanoseconds time);
    /// Limits the rate of each connection's replies.
    void throttle(std::size_t bytes_per_second);
    /// Sends each byte as its own segment, in both directions.
    void split();
    /// Buffers replies until let_go() or pass(); a full buffer blocks the server.
    void hold_replies();
    void let_go();
    /// Passes this many more bytes of each connection's replies, then buffers.
    void hold_replies_after(std::size_t bytes);
    /// Accepts connections, but neither reads nor replies, like a suspended server.
    void accept_and_be_silent();

    // Losses.

    enum class ending { finish, reset };
    /// Ends each connection after this many more bytes of replies.
    void cut_after(std::size_t bytes, ending how = ending::finish);
    /// Corrupts every n-th byte of each connection's replies.
    void corrupt(std::size_t every_nth);
    /// Replaces the first occurrence of `what` in a request by `into`, which has the same length.
    /// `what` must arrive in one segment.
    void alter_request(const std::string& what, const std::string& into);
    /// Whether a request was altered.
    bool altered();
    /// Discards everything sent in either direction, including the end of a connection. Connections
    /// accepted meanwhile stay without replies even after pass().
    void black_hole();
    /// Refuses new connections; existing ones continue.
    void refuse();

    // End all existing connections. On return, the clients' kernel knows the end.

    /// Both sides see an orderly end.
    void finish_all();
    /// Both sides see a reset.
    void reset_all();

    /// How many bytes of replies are buffered here.
    std::size_t buffered();

    /// How many clients are connected; a client that has closed its socket does not count, even if
    /// only the kernel knows.
    std::size_t connections();
    /// How many connections were ever accepted.
    std::size_t accepted();
    /// The most connections at one time; very short ones may be missed.
    std::size_t most_at_once();
    /// How many times a client has begun to speak, on any connection: at its beginning or after a
    /// reply. The difference between two counts is the number of round trips.
    std::size_t turns();
    /// Excludes connections whose first bytes begin with `beginning` from connections(),
    /// most_at_once(), buffered() and hold_replies_after(). Others count from their first bytes on.
    void overlook(const std::string& beginning);
    /// Excludes connections whose first bytes satisfy the predicate.
    using predicate = std::function<bool(const std::string&)>;
    void overlook(predicate of_beginnings);

private:
    class loop;
    void end_all(ending how);
    std::unique_ptr<loop> loop_;
};

}  // namespace support

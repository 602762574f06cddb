// What may happen between a client and a real server: a proxy on 127.0.0.1 that is told how to
// behave, while connections go through it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace support {

/// One thread carries all. When a verb returns, it holds for all who have connected and all who
/// will; verbs add up until pass(). "Replies" are what the server says.
class gate {
public:
    explicit gate(std::uint16_t server_port);
    gate(const gate&) = delete;
    gate& operator=(const gate&) = delete;
    ~gate();

    /// Where clients connect; stays the same.
    std::uint16_t port() const;

    /// Back to normal: whoever is connected goes on where it is.
    void pass();

    // Slowness. Nothing is lost.

    /// Replies come so much later.
    void delay(std::chrono::nanoseconds time);
    /// Replies of each connection come no faster than that.
    void throttle(std::size_t bytes_per_second);
    /// Each byte is a segment of its own, in both directions.
    void split();
    /// Replies stay here until let_go() or pass(); if they get too many, with the server.
    void hold_replies();
    void let_go();
    /// Of each connection's replies so many further bytes go on; the rest stays as above.
    void hold_replies_after(std::size_t bytes);
    /// Accepts, but neither reads nor answers, as a server that has stopped.
    void accept_and_be_silent();

    // Loss.

    enum class ending { finish, reset };
    /// Each connection ends after so many further bytes of replies.
    void cut_after(std::size_t bytes, ending how = ending::finish);
    /// Of each connection's replies every n-th byte from now on is wrong.
    void corrupt(std::size_t every_nth);
    /// Where these bytes first come in a request, the server hears others in their place, as many
    /// of them. Once; the bytes must have come in one segment.
    void alter_request(const std::string& what, const std::string& into);
    /// Whether that has happened.
    bool altered();
    /// Whatever is sent in either direction is gone, and so is the news that somebody hung up.
    /// Who connects meanwhile is accepted, and hears nothing even after pass().
    void black_hole();
    /// Nobody listens any more. Who is connected stays so.
    void refuse();

    // At once, to all who are connected now. When these return, the kernel has told the clients: a
    // client that looks, sees it.

    /// Both sides see an orderly end.
    void finish_all();
    /// Both sides see a reset.
    void reset_all();

    /// How many bytes of replies have come from the server and not yet gone on.
    std::size_t held();

    /// How many clients are connected: who has hung up counts no longer, whether or not this is
    /// known to anybody but the kernel.
    std::size_t connections();
    /// How many ever were.
    std::size_t accepted();
    /// The most that ever were connected at the same time. Who was there only for a moment may have
    /// been missed.
    std::size_t most_at_once();
    /// From now on connections(), most_at_once(), held() and hold_replies_after() leave out who
    /// begins with these bytes, and count everybody else only when they have begun.
    void overlook(const std::string& beginning);
    /// Or whose first bytes this is true of.
    using teller = std::function<bool(const std::string&)>;
    void overlook(teller of_beginnings);

private:
    class loop;
    void end_all(ending how);
    std::unique_ptr<loop> loop_;
};

}  // namespace support

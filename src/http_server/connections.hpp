// The connections of a server: how many are open, what each is doing, and which to drop.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>

#include "cenote/http_server.hpp"

namespace cenote::http_server {

/// One client. Its public members are used only on the strand of its stream.
struct connection {
    connection(boost::asio::ip::tcp::socket s, std::size_t buffer_max)
        : stream(std::move(s)), pause(stream.get_executor()), buffer(buffer_max) {}

    boost::beast::tcp_stream stream;
    boost::asio::steady_timer pause;   // before the next request is read
    boost::beast::flat_buffer buffer;  // received and not yet parsed
    std::uint64_t received = 0;        // bytes so far, including those in `buffer`
    /// While draining: requests that begin at or after this byte are not served.
    std::optional<std::uint64_t> drain_end;

private:
    friend class connections;
    using place = std::list<std::shared_ptr<connection>>::iterator;

    // Guarded by the mutex of `connections`.
    enum class phase { removed, idle, receiving, busy, dropped };
    phase phase_ = phase::removed;
    bool last_response_ = false;  // its latest response said `Connection: close`
    place place_;
    std::chrono::steady_clock::time_point since_;
};

/// The connections of one server. A connection is *idle* until the header of its next request is
/// complete, then *receiving* until the body is complete, then *busy* until the response is sent.
///
/// Thread safety: all members may be called from any thread at any time.
class connections : public std::enable_shared_from_this<connections> {
public:
    explicit connections(std::size_t max) : max_(max) {}

    /// `full`: `max` connections are open, and none may be dropped for a new one. `over`:
    /// drop_all() was called.
    enum class admission { accepted, full, over };
    /// Adds a connection as idle, if possible; drops another one if necessary.
    admission add(const std::shared_ptr<connection>& c);
    void set_receiving(connection& c);
    /// False after drop_all(): no further handler may start.
    bool set_busy(connection& c);
    /// The response to a request ended. `sent`: completely. `more`: another request may follow.
    void set_idle(connection& c, bool sent, bool more);
    void remove(connection& c);

    /// Frees a descriptor: drops the longest-idle connection, or else one that add() may drop.
    void drop_longest_idle();
    /// Drops all idle connections except those that are already closing after their response.
    void drop_idle();
    /// Closes all connections; add() and set_busy() fail from now on. Returns how many requests
    /// were in progress.
    std::size_t drop_all();

    server_stats stats() const;
    /// Whether no connection is left, including dropped ones that have not ended yet.
    bool empty() const;

private:
    using list = std::list<std::shared_ptr<connection>>;

    list& list_of(const connection& c);
    void move_to(connection& c, connection::phase next);
    /// A connection that may be dropped for a new one, or null: the longest idle, then the longest
    /// receiving, each after a minimum time. So a client cannot keep others out by sending slowly.
    const std::shared_ptr<connection>* droppable() const;
    /// Ends the connection on its strand, unless it is busy by then.
    void drop(const std::shared_ptr<connection>& c);

    const std::size_t max_;
    mutable std::mutex mutex_;
    list idle_;       // longest first
    list receiving_;  // longest first
    list busy_;
    list dropped_;  // no longer counted
    bool over_ = false;
    server_stats counts_;
};

}  // namespace cenote::http_server

// The connections of a server: how many there are, who waits for what, and who has to go.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>

#include "cenote/http_server.hpp"

namespace cenote::http_server {

/// One client. Its stream is on a strand, and touched only there.
struct connection {
    connection(boost::asio::ip::tcp::socket s, std::size_t buffer_max)
        : stream(std::move(s)), buffer(buffer_max) {}

    boost::beast::tcp_stream stream;
    boost::beast::flat_buffer buffer;  // what has come and was not read yet

private:
    friend class connections;
    using place = std::list<std::shared_ptr<connection>>::iterator;

    // Under the lock of `connections`.
    enum class condition { absent, waiting, busy, leaving };
    condition is = condition::absent;
    place where;
    std::chrono::steady_clock::time_point waits_since;
};

/// Whom a server has at present. Somebody *waits* who has not sent a whole header since the last
/// answer, and is *busy* from then on.
class connections : public std::enable_shared_from_this<connections> {
public:
    explicit connections(std::size_t max) : max_(max) {}

    /// False: there are as many as may be, and nobody has waited for so long that they should go.
    bool enter(const std::shared_ptr<connection>& who);
    void becomes_busy(connection& who);
    void has_been_answered(connection& who);
    void leave(connection& who);

    /// Makes room, where not the number is the limit but the system.
    void drop_longest_waiting();
    void drop_waiting();
    void drop_all();

    server_stats stats() const;
    /// Whether anybody is there, also of those who were told to go.
    bool is_occupied() const;
    void count_malformed();

private:
    using list = std::list<std::shared_ptr<connection>>;

    list& list_of(const connection& who);
    void move_to(connection& who, connection::condition next);
    /// Has it end, on its strand, unless it has become busy by then.
    void send_away(const std::shared_ptr<connection>& who);

    const std::size_t max_;
    mutable std::mutex mutex_;
    list waiting_;  // longest first
    list busy_;
    list leaving_;  // were told to go; not counted any more
    server_stats counts_;
};

}  // namespace cenote::http_server

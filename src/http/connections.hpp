// The connections of a server: how many there are, who waits for what, and who has to go.
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

/// One client. Its stream and timer are on a strand, and touched only there.
struct connection {
    connection(boost::asio::ip::tcp::socket s, std::size_t buffer_max)
        : stream(std::move(s)), pause(stream.get_executor()), buffer(buffer_max) {}

    boost::beast::tcp_stream stream;
    boost::asio::steady_timer pause;   // before its next request is read
    boost::beast::flat_buffer buffer;  // what has come and was not read yet
    std::uint64_t received = 0;        // bytes so far, also those in `buffer`
    /// Requests that begin before this byte are still answered. Empty: all are.
    std::optional<std::uint64_t> answered_until;

private:
    friend class connections;
    using place = std::list<std::shared_ptr<connection>>::iterator;

    // Under the lock of `connections`.
    enum class condition { absent, waiting, sending, busy, leaving };
    condition is_ = condition::absent;
    bool parting_ = false;  // was told that there will be no more answers
    place where_;
    std::chrono::steady_clock::time_point since_;
};

/// Whom a server has at present. Somebody *waits* who has not sent a whole header since the last
/// answer, then *sends* until the body has come, and is *busy* from then on.
class connections : public std::enable_shared_from_this<connections> {
public:
    explicit connections(std::size_t max) : max_(max) {}

    /// Whether somebody may come in. `full`: there are as many as may be, and nobody has waited for
    /// so long that they should go. `over`: everybody has been dropped, and nobody comes after.
    enum class entrance { open, full, over };
    entrance enter(const std::shared_ptr<connection>& who);
    void begins_to_send(connection& who);
    /// False: everybody has been dropped, and no handler may begin any more.
    bool becomes_busy(connection& who);
    /// `sent`: the whole answer. `more`: another request may follow.
    void has_been_answered(connection& who, bool sent, bool more);
    void leave(connection& who);

    /// Makes room, where not the number is the limit but the system.
    void drop_longest_waiting();
    /// Not who is being parted from already: they might lose the answer that they are taking.
    void drop_waiting();
    /// For good. Returns how many requests were in progress.
    std::size_t drop_all();

    server_stats stats() const;
    /// Whether anybody is there, also of those who were told to go.
    bool is_occupied() const;

private:
    using list = std::list<std::shared_ptr<connection>>;

    list& list_of(const connection& who);
    void move_to(connection& who, connection::condition next);
    /// Who is to go first, if somebody has been there for so long without a whole request. Nobody
    /// can keep others out by not saying what they have begun to say.
    const std::shared_ptr<connection>* dispensable() const;
    /// Has it end, on its strand, unless it has become busy by then.
    void send_away(const std::shared_ptr<connection>& who);

    const std::size_t max_;
    mutable std::mutex mutex_;
    list waiting_;  // longest first
    list sending_;  // longest first
    list busy_;
    list leaving_;  // were told to go; not counted any more
    bool dropped_ = false;
    server_stats counts_;
};

}  // namespace cenote::http_server

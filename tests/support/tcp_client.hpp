// A plain TCP client: sends bytes, receives bytes, and reports how the connection ended.
#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <system_error>

#include "support/backend.hpp"
#include "support/patience.hpp"

namespace support {

enum class ended { not_yet, finished, reset };

class tcp_client {
public:
    explicit tcp_client(std::uint16_t port)
        : socket_(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")) {
        sockaddr_in address = loopback(port);
        checked(::connect(socket_.get(), plain(address), sizeof address), "connect");
    }

    void say(std::string_view bytes) const {
        while (!bytes.empty()) {
            ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
            checked(static_cast<int>(sent), "send");
            bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
    }
    /// Receives `count` bytes, or fewer at the end of the stream and after `limit`, which is
    /// machine time. Zero returns what has already arrived.
    std::string hear(std::size_t count, std::chrono::nanoseconds limit = plenty) {
        auto end = machine_time() + limit;
        std::string all;
        while (all.size() < count && end_ == ended::not_yet) {
            if (!readable_until(end)) break;
            char some[4096];
            ssize_t got = ::recv(socket_.get(), some, std::min(sizeof some, count - all.size()), 0);
            if (got > 0) all.append(some, static_cast<std::size_t>(got));
            if (got == 0) end_ = ended::finished;
            if (got < 0) end_ = ended::reset;
        }
        return all;
    }
    /// Receives everything up to the end of the stream.
    std::string hear_all() { return hear(static_cast<std::size_t>(-1)); }
    /// Waits for the end of the stream, discards what comes before, and returns how it ended.
    ended end(std::chrono::nanoseconds limit = plenty) {
        hear(static_cast<std::size_t>(-1), limit);
        return end_;
    }
    /// Whether neither a byte nor the end arrives for 30 ms.
    bool hears_nothing() { return hear(1, 30ms).empty() && end_ == ended::not_yet; }

    int get() const { return socket_.get(); }

private:
    bool readable_until(std::chrono::nanoseconds end) const {
        for (;;) {
            auto left = std::chrono::ceil<std::chrono::milliseconds>(end - machine_time()).count();
            pollfd wait{.fd = socket_.get(), .events = POLLIN, .revents = 0};
            // With a stopped clock (clock.hpp) poll returns early.
            if (::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) > 0)
                return true;
            if (left <= 0) return false;
        }
    }

    descriptor socket_;
    ended end_ = ended::not_yet;
};

/// Whether a server listens on the port.
inline bool listens(std::uint16_t port) {
    try {
        tcp_client probe(port);
        return true;
    } catch (const std::system_error& e) {
        // Reset: the server was listening, and closed its socket before it accepted the connection.
        if (e.code().value() == ECONNRESET) return true;
        if (e.code().value() != ECONNREFUSED) throw;
        return false;
    }
}

}  // namespace support

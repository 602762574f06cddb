// A hostile server: sends scripted replies to the first requests, then the same bytes without end.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>

#include "support/tcp_server.hpp"

namespace support {

struct flood {
    std::string greeting = {};  // sent before the client's first request
    /// The reply to the first request, computed from it.
    std::function<std::string(std::string_view)> first = {};
    std::deque<std::string> answers = {};  // the replies to the next requests
    std::string unit = {};                 // repeated without end after the last reply
};

class flooding_server {
public:
    explicit flooding_server(flood what) : what_(std::move(what)), block_(block_of(what_.unit)) {}

    std::uint16_t port() const { return server_.port(); }
    /// Bytes of the flood passed to the kernel, which may buffer about 10 MiB.
    std::size_t sent() const { return sent_; }
    int connections() const { return server_.accepted(); }
    /// Connections that the client has not closed.
    int present() const { return server_.present(); }

private:
    static std::string block_of(const std::string& unit) {
        std::string block;
        while (block.size() < 16'384) block += unit;
        return block;
    }
    static bool say(int fd, const std::string& text) {
        return ::send(fd, text.data(), text.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(text.size());
    }
    void serve(int fd) {
        std::array<char, 4096> some{};
        ssize_t got = 0;
        auto hear = [&] { return (got = ::recv(fd, some.data(), some.size(), 0)) > 0; };
        if (!say(fd, what_.greeting)) return;
        if (what_.first) {
            if (!hear()) return;
            if (!say(fd, what_.first({some.data(), static_cast<std::size_t>(got)}))) return;
        }
        for (const std::string& answer : what_.answers)
            if (!hear() || !say(fd, answer)) return;
        while (say(fd, block_)) sent_ += block_.size();
    }

    const flood what_;
    const std::string block_;
    std::atomic<std::size_t> sent_{0};
    tcp_server server_{[this](int fd) { serve(fd); }};  // last: its threads use the others
};

}  // namespace support

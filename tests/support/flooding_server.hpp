// A hostile server: it answers the first requests as it was told, and then sends the same bytes
// until the client hangs up.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include "support/backend.hpp"

namespace support {

struct flood {
    std::string greeting = {};  // sent before the client has said anything
    /// To the first thing that the client says, if the answer depends on it.
    std::function<std::string(std::string_view)> first = {};
    std::deque<std::string> answers = {};  // each to another thing the client says
    std::string unit = {};                 // sent again and again after the last answer
};

class flooding_server {
public:
    explicit flooding_server(flood what)
        : what_(std::move(what)),
          listener_(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")) {
        while (block_.size() < block_size) block_ += what_.unit;
        sockaddr_in address = loopback(0);
        checked(::bind(listener_.get(), plain(address), sizeof address), "bind");
        checked(::listen(listener_.get(), 64), "listen");
        socklen_t size = sizeof address;
        void* filled = &address;
        ::getsockname(listener_.get(), static_cast<sockaddr*>(filled), &size);
        port_ = ntohs(address.sin_port);
        accepting_ = std::thread([this] { accept_all(); });
    }
    flooding_server(const flooding_server&) = delete;
    flooding_server& operator=(const flooding_server&) = delete;
    ~flooding_server() {
        ::shutdown(listener_.get(), SHUT_RD);
        accepting_.join();
        for (const descriptor& one : open_) ::shutdown(one.get(), SHUT_RDWR);
        for (std::thread& one : serving_) one.join();
    }

    std::uint16_t port() const { return port_; }
    /// Of the flood, given to the system: about 10 MiB may be on the way.
    std::size_t sent() const { return sent_; }
    int connections() const { return connections_; }
    /// Connections that the client has not ended.
    int present() const { return present_; }

private:
    static constexpr std::size_t block_size = 16'384;

    void accept_all() {
        for (int fd; (fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
            ++connections_;
            ++present_;
            open_.emplace_back(fd);
            serving_.emplace_back([this, fd] {
                serve(fd);
                ::shutdown(fd, SHUT_RDWR);
                --present_;
            });
        }
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
    std::string block_;
    descriptor listener_;
    std::uint16_t port_ = 0;
    std::atomic<int> connections_{0};
    std::atomic<int> present_{0};
    std::atomic<std::size_t> sent_{0};
    std::list<descriptor> open_;
    std::list<std::thread> serving_;
    std::thread accepting_;
};

}  // namespace support

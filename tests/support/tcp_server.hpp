// A TCP server in the test's own process, with one thread per connection.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include "support/backend.hpp"

namespace support {

class tcp_server {
public:
    /// `serve` runs once per connection, on its own thread, with the socket's descriptor. When it
    /// returns, the connection is shut down.
    explicit tcp_server(std::function<void(int)> serve) : serve_(std::move(serve)) {
        accepting_ = std::thread([this] { accept_all(); });
    }
    tcp_server(const tcp_server&) = delete;
    tcp_server& operator=(const tcp_server&) = delete;
    /// Shuts all connections down and joins all threads.
    ~tcp_server() {
        ::shutdown(listener_.get(), SHUT_RD);
        accepting_.join();
        for (const descriptor& one : open_) ::shutdown(one.get(), SHUT_RDWR);
        for (std::thread& one : serving_) one.join();
    }

    std::uint16_t port() const { return port_; }
    /// How many connections were accepted.
    int accepted() const { return accepted_; }
    /// How many connections are being served.
    int present() const { return present_; }

private:
    void accept_all() {
        for (int fd; (fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
            ++accepted_;
            ++present_;
            open_.emplace_back(fd);
            serving_.emplace_back([this, fd] {
                serve_(fd);
                ::shutdown(fd, SHUT_RDWR);
                --present_;
            });
        }
    }

    const std::function<void(int)> serve_;
    descriptor listener_ = listening_socket();
    std::uint16_t port_ = port_of(listener_);
    std::atomic<int> accepted_{0};
    std::atomic<int> present_{0};
    std::list<descriptor> open_;
    std::list<std::thread> serving_;
    std::thread accepting_;
};

}  // namespace support

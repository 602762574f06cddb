// A server that answers each request with bytes that the test has chosen, which a real server would
// not send.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include "support/backend.hpp"

namespace support {

/// What the server does when it has received the head of a request.
struct scripted_answer {
    std::string bytes;
    enum class then { stay, finish, reset } after = then::stay;
};

/// Each request, on any connection, gets the next answer; after the last answer, the last one
/// again.
class scripted_server {
public:
    explicit scripted_server(std::deque<scripted_answer> script)
        : script_(std::move(script)),
          listener_(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")) {
        sockaddr_in address = loopback(0);
        checked(::bind(listener_.get(), plain(address), sizeof address), "bind");
        checked(::listen(listener_.get(), 64), "listen");
        socklen_t size = sizeof address;
        void* filled = &address;
        ::getsockname(listener_.get(), static_cast<sockaddr*>(filled), &size);
        port_ = ntohs(address.sin_port);
        accepting_ = std::thread([this] { accept_all(); });
    }
    scripted_server(const scripted_server&) = delete;
    scripted_server& operator=(const scripted_server&) = delete;
    ~scripted_server() {
        ::shutdown(listener_.get(), SHUT_RD);
        accepting_.join();
        for (const descriptor& one : open_) ::shutdown(one.get(), SHUT_RDWR);
        for (std::thread& one : serving_) one.join();
    }

    std::uint16_t port() const { return port_; }
    /// All bytes that it has received, from all connections.
    std::string received() {
        std::lock_guard lock(mutex_);
        return received_;
    }
    int requests() const { return requests_; }
    int connections() const { return connections_; }

private:
    void accept_all() {
        for (int fd; (fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
            ++connections_;
            open_.emplace_back(fd);
            serving_.emplace_back([this, fd] { serve(fd); });
        }
    }
    scripted_answer next() {
        std::lock_guard lock(mutex_);
        scripted_answer answer = script_.front();
        if (script_.size() > 1) script_.pop_front();
        return answer;
    }
    void serve(int fd) {
        std::string unread;
        char some[4096];
        for (ssize_t got = 0; (got = ::recv(fd, some, sizeof some, 0)) > 0;) {
            std::string_view piece(some, static_cast<std::size_t>(got));
            unread += piece;
            {
                std::lock_guard lock(mutex_);
                received_ += piece;
            }
            for (std::size_t end = 0; (end = unread.find("\r\n\r\n")) != unread.npos;) {
                unread.erase(0, end + 4);
                ++requests_;
                if (!send(fd, next())) return;
            }
        }
    }
    static bool send(int fd, const scripted_answer& answer) {
        using then = scripted_answer::then;
        auto size = static_cast<ssize_t>(answer.bytes.size());
        bool sent = ::send(fd, answer.bytes.data(), answer.bytes.size(), MSG_NOSIGNAL) == size;
        if (sent && answer.after == then::stay) return true;
        if (answer.after == then::reset) {
            linger at_once{.l_onoff = 1, .l_linger = 0};
            ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            sockaddr none{};
            none.sa_family = AF_UNSPEC;  // resets the connection and keeps the descriptor
            ::connect(fd, &none, sizeof none);
        } else {
            ::shutdown(fd, SHUT_RDWR);
        }
        return false;
    }

    std::mutex mutex_;
    std::deque<scripted_answer> script_;
    std::string received_;
    descriptor listener_;
    std::uint16_t port_ = 0;
    std::atomic<int> connections_{0};
    std::atomic<int> requests_{0};
    std::list<descriptor> open_;
    std::list<std::thread> serving_;
    std::thread accepting_;
};

}  // namespace support

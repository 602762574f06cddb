// A server in its own process that can fail in six ways, its connector, and socket helpers.
#pragma once

#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <netinet/in.h>
#include <new>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace support {

using namespace std::chrono_literals;

/// Closes the descriptor in its destructor.
class descriptor {
public:
    explicit descriptor(int fd = -1) : fd_(fd) {}
    descriptor(descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    descriptor& operator=(descriptor&& other) noexcept {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const { return fd_; }

private:
    int fd_;
};

inline int checked(int result, const char* what) {
    if (result < 0) throw std::system_error(errno, std::generic_category(), what);
    return result;
}

inline sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

inline const sockaddr* plain(const sockaddr_in& address) {
    return static_cast<const sockaddr*>(static_cast<const void*>(&address));
}

/// The port that a socket is bound to.
inline std::uint16_t port_of(const descriptor& socket) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    void* filled = &address;
    checked(::getsockname(socket.get(), static_cast<sockaddr*>(filled), &size), "getsockname");
    return ntohs(address.sin_port);
}

/// A listening socket on a free port of 127.0.0.1.
inline descriptor listening_socket() {
    descriptor socket(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
    sockaddr_in address = loopback(0);
    checked(::bind(socket.get(), plain(address), sizeof address), "bind");
    checked(::listen(socket.get(), 64), "listen");
    return socket;
}

/// A bound socket whose port stays reserved while it does not listen: the kernel keeps a port that
/// was requested by number. A first socket finds a free port and reserves it meanwhile.
inline descriptor with_own_port(int kind) {
    auto bind_to = [](const descriptor& socket, std::uint16_t port) {
        sockaddr_in address = loopback(port);
        checked(::bind(socket.get(), plain(address), sizeof address), "bind");
    };
    auto share = [](const descriptor& socket) {
        int yes = 1;
        checked(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes),
                "setsockopt");
    };
    descriptor first(checked(::socket(AF_INET, kind, 0), "socket"));
    bind_to(first, 0);
    share(first);  // after bind: the port must have been free
    descriptor own(checked(::socket(AF_INET, kind, 0), "socket"));
    share(own);
    bind_to(own, port_of(first));
    return own;
}

/// Greets each client with 'H' and replies 'O' to every byte, unless it was told to fail.
class backend {
public:
    backend() {
        void* page = ::mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
        shared_ = new (page) shared;
        checked(::listen(socket_.get(), 128), "listen");
        process_ = checked(::fork(), "fork");
        if (process_ == 0) serve();
    }
    backend(const backend&) = delete;
    backend& operator=(const backend&) = delete;
    ~backend() {
        ::kill(process_, SIGKILL);
        ::waitpid(process_, nullptr, 0);
        ::munmap(shared_, sizeof(shared));
    }

    std::uint16_t port() const { return port_; }
    pid_t process() const { return process_; }

    // The six failures.

    /// Refuses new connections and closes existing ones.
    void refuse() {
        become(mood::gone);
        // A socket that no longer listens keeps its port.
        checked(::shutdown(socket_.get(), SHUT_RD), "shutdown");
    }
    /// New connections get no reply from the network; existing ones get no reply from the server.
    void vanish() {
        become(mood::deaf);
        checked(::listen(socket_.get(), 0), "listen");
        while (connects()) {
        }
    }
    /// Accepts connections but does not reply.
    void fall_silent() { become(mood::mute); }
    /// Accepts connections, sends an error and closes them.
    void complain() { become(mood::sick); }
    /// Suspends the server's process.
    void stop() {
        stopped_ = true;
        ::kill(process_, SIGSTOP);
        ::waitpid(process_, nullptr, WUNTRACED);
    }

    void come_back() {
        fillers_.clear();
        checked(::listen(socket_.get(), 128), "listen");
        if (std::exchange(stopped_, false)) ::kill(process_, SIGCONT);
        become(mood::well);
    }

private:
    enum class mood : int { well, gone, deaf, mute, sick };
    static constexpr nfds_t most = 512;
    /// In memory that both processes share.
    struct shared {
        std::atomic<mood> requested{mood::well};
        std::atomic<mood> now{mood::well};
    };

    /// Returns when the server has changed its behavior.
    void become(mood next) {
        shared_->requested = next;
        while (shared_->now != next) ::poll(nullptr, 0, 0);
    }

    /// Whether the accept queue has room for one more connection.
    bool connects() {
        descriptor one(checked(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket"));
        sockaddr_in address = loopback(port_);
        ::connect(one.get(), plain(address), sizeof address);
        pollfd wait{.fd = one.get(), .events = POLLOUT, .revents = 0};
        bool connected = ::poll(&wait, 1, 100) > 0;
        fillers_.push_back(std::move(one));
        return connected;
    }

    // Runs in the forked process: only async-signal-safe functions.
    [[noreturn]] void serve() const {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        pollfd all[most] = {};
        nfds_t count = 1;
        for (;;) {
            mood now = shared_->requested;
            shared_->now = now;
            if (now == mood::gone)
                while (count > 1) ::close(all[--count].fd);
            if (now == mood::gone || now == mood::deaf) {
                ::poll(nullptr, 0, 1);
                continue;
            }
            all[0] = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
            if (::poll(all, count, 1) <= 0) continue;
            for (nfds_t i = count - 1; i > 0; --i)
                if (all[i].revents != 0 && !answers(all[i].fd, now)) {
                    ::close(all[i].fd);
                    all[i] = all[--count];
                }
            if ((all[0].revents & POLLIN) == 0 || count == most) continue;
            int fd = ::accept(socket_.get(), nullptr, nullptr);
            if (fd >= 0 && greets(fd, now))
                all[count++] = {.fd = fd, .events = POLLIN, .revents = 0};
        }
    }
    static bool greets(int fd, mood now) {
        if (now == mood::mute) return true;
        bool well = now == mood::well;
        ::send(fd, well ? "H" : "E", 1, MSG_NOSIGNAL);
        if (!well) ::close(fd);
        return well;
    }
    static bool answers(int fd, mood now) {
        char question = 0;
        if (::recv(fd, &question, 1, 0) <= 0) return false;
        return now == mood::mute || ::send(fd, "O", 1, MSG_NOSIGNAL) == 1;
    }

    descriptor socket_ = with_own_port(SOCK_STREAM | SOCK_CLOEXEC);
    std::uint16_t port_ = port_of(socket_);
    shared* shared_ = nullptr;
    pid_t process_ = 0;
    bool stopped_ = false;
    std::vector<descriptor> fillers_;
};

/// A connector whose calls end after `patience` (zero: never). It uses the steady clock, which a
/// test can stop (clock.hpp).
struct backend_connector {
    std::uint16_t port = 0;
    std::chrono::milliseconds patience{};

    descriptor open() const {
        instant end = deadline();
        int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
        descriptor d(checked(::socket(AF_INET, kind, 0), "socket"));
        sockaddr_in address = loopback(port);
        if (::connect(d.get(), plain(address), sizeof address) < 0) {
            if (errno != EINPROGRESS) checked(-1, "connect");
            await(d, POLLOUT, end);
            socklen_t size = sizeof errno;
            checked(::getsockopt(d.get(), SOL_SOCKET, SO_ERROR, &errno, &size), "getsockopt");
            if (errno != 0) checked(-1, "connect");
        }
        if (hear(d, end) != 'H') throw std::runtime_error("the server cannot serve");
        return d;
    }
    bool probe(const descriptor& d) const {
        instant end = deadline();
        return ::send(d.get(), "?", 1, MSG_NOSIGNAL) == 1 && hear(d, end) == 'O';
    }

private:
    using instant = std::chrono::steady_clock::time_point;

    instant deadline() const {
        if (patience == 0ms) return instant::max();
        return std::chrono::steady_clock::now() + patience;
    }
    static void await(const descriptor& d, short what, instant end) {
        pollfd wait{.fd = d.get(), .events = what, .revents = 0};
        while (::poll(&wait, 1, 5) == 0)
            if (std::chrono::steady_clock::now() >= end)
                throw std::system_error(ETIMEDOUT, std::generic_category(), "poll");
    }
    static char hear(const descriptor& d, instant end) {
        char said = 0;
        await(d, POLLIN, end);
        checked(static_cast<int>(::recv(d.get(), &said, 1, 0)), "recv");
        return said;
    }
};

}  // namespace support

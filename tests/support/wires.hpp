// Connections that record which process writes to them, for tests of fork.
#pragma once

#include <array>
#include <atomic>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace support {

/// Sent by each connector call and by the destructor.
struct message {
    pid_t from = 0;
    char verb = 0;
};

/// The server ends of all connections. Uses no lock, because a fork may happen at any time.
class exchange {
public:
    exchange() = default;
    ~exchange() {
        for (int i = 0; i < count_; ++i)
            if (int end = ends_[static_cast<std::size_t>(i)].fd; end >= 0) ::close(end);
    }
    exchange(const exchange&) = delete;
    exchange& operator=(const exchange&) = delete;

    /// Returns the client end of a new connection.
    int connect() {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return -1;
        auto i = static_cast<std::size_t>(count_++);
        ends_.at(i).owner = getpid();
        ends_.at(i).fd = pair[1];
        return pair[0];
    }
    int count() const { return count_; }

    /// How many messages came from another process than the one that opened the connection.
    int foreign_words() {
        int found = 0;
        for (int i = 0; i < count_; ++i) {
            auto& end = ends_[static_cast<std::size_t>(i)];
            message m;
            while (end.fd >= 0 && recv(end.fd, &m, sizeof m, MSG_DONTWAIT) == sizeof m) {
                if (m.from == end.owner) continue;
                ++found;
                std::fprintf(stderr, "process %d sent '%c' on a connection of %d\n",
                             static_cast<int>(m.from), m.verb, static_cast<int>(end.owner));
            }
        }
        return found;
    }

private:
    struct far_end {
        std::atomic<int> fd{-1};
        pid_t owner = 0;
    };
    std::array<far_end, 8192> ends_;
    std::atomic<int> count_{0};
};

/// The client end of a connection. Its destructor sends a last message.
class wire {
public:
    explicit wire(int fd) : fd_(fd) {}
    wire(wire&& other) noexcept
        : maker_(other.maker_), fd_(std::exchange(other.fd_, -1)), verbs_(other.verbs_) {}
    wire& operator=(wire&&) = delete;
    ~wire() {
        if (fd_ < 0) return;
        say('~');
        ::close(fd_);
    }

    void say(char verb) {
        message m{.from = getpid(), .verb = verb};
        if (send(fd_, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof m) ++verbs_;
    }
    int fd() const { return fd_; }
    bool is_ours() const { return maker_ == getpid(); }
    bool is_open() const { return fcntl(fd_, F_GETFD) >= 0; }

private:
    pid_t maker_ = getpid();
    int fd_;
    int verbs_ = 0;  // messages that could not be sent
};

struct wire_connector {
    std::shared_ptr<exchange> to;

    wire open() const {
        wire w(to->connect());
        w.say('o');
        return w;
    }
    static bool probe(wire& w) { return w.say('p'), true; }
    static void reset(wire& w) { w.say('r'); }
    static void close(wire& w) { w.say('c'); }
};

/// Closes a child's copies without sending a message.
struct forsaking_connector : wire_connector {
    std::shared_ptr<std::atomic<int>> forsaken = std::make_shared<std::atomic<int>>(0);

    void forsake(wire& w) const {
        ++*forsaken;
        ::close(w.fd());
    }
};

/// In seconds.
inline constexpr unsigned child_limit = 60;

/// Forks and runs `work` in the child, within the limit. Returns its result.
template <class Work>
bool in_child(Work&& work) {
    std::fflush(nullptr);
    pid_t id = fork();
    if (id == 0) {
        alarm(child_limit);
        _exit(work() ? 0 : 1);
    }
    int status = -1;
    if (waitpid(id, &status, 0) != id) return false;
    if (WIFSIGNALED(status)) std::fprintf(stderr, "the child: signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// For the work in a child, where GoogleTest's assertions have no effect.
inline bool must(bool holds, const char* what, int line) {
    if (!holds) std::fprintf(stderr, "in the child, line %d: %s\n", line, what);
    return holds;
}
#define CHILD_MUST(what)                                           \
    do {                                                           \
        if (!support::must((what), #what, __LINE__)) return false; \
    } while (false)

}  // namespace support

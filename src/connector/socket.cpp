// Name lookup, connecting, socket options, and a check without reading.
#include "connector/socket.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>

#include "cenote/server_error.hpp"
#include "connector/work.hpp"

namespace cenote::connector_detail {

namespace {

std::string text_of(int error) { return std::generic_category().message(error); }

address unix_address(const std::string& path) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    if (path.size() >= sizeof at.sun_path)
        throw connection_error(error_kind::final,
                               "cenote: the path of the Unix socket is too long");
    path.copy(at.sun_path, path.size());
    address a;
    std::memcpy(&a.bytes, &at, sizeof at);
    a.size = sizeof at;
    a.text = path;
    return a;
}

error_kind kind_of_lookup(int error) {
    return error == EAI_NONAME || error == EAI_FAMILY ? error_kind::final : error_kind::transient;
}

std::string text_of(const sockaddr* at, socklen_t size) {
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (::getnameinfo(at, size, host, sizeof host, port, sizeof port,
                      NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "an address";
    return std::string(host) + ":" + port;
}

/// Numeric addresses and paths.
bool needs_no_lookup(const std::string& host) {
    in6_addr room{};
    return host.starts_with('/') || ::inet_pton(AF_INET, host.c_str(), &room) == 1 ||
           ::inet_pton(AF_INET6, host.c_str(), &room) == 1;
}

/// Blocks while it asks the name servers.
std::vector<address> look_up(const std::string& host, std::uint16_t port) {
    if (host.starts_with('/')) return {unix_address(host)};
    addrinfo wanted{};
    wanted.ai_socktype = SOCK_STREAM;
    wanted.ai_flags = AI_NUMERICSERV;
    addrinfo* found = nullptr;
    int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found);
    if (error != 0)
        throw connection_error(kind_of_lookup(error),
                               "cenote: cannot find the host: " + std::string(gai_strerror(error)),
                               {}, error);
    std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);
    std::vector<address> all;
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
        address a;
        std::memcpy(&a.bytes, each->ai_addr, each->ai_addrlen);
        a.size = each->ai_addrlen;
        a.text = text_of(each->ai_addr, each->ai_addrlen);
        all.push_back(std::move(a));
    }
    return all;
}

/// Connects to one address.
class connecting final : public steps {
public:
    explicit connecting(const address& to)
        : to_(to),
          socket_(::socket(to.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
        if (!socket_) fail(errno);
        enable_keepalive(socket_.descriptor());
    }

    need step() override {
        int error = begun_ ? outcome() : begin();
        if (error == EINPROGRESS || error == EINTR) return need::to_write;
        if (error != 0) fail(error);
        return need::nothing;
    }
    int descriptor() const override { return socket_.descriptor(); }
    const char* expected() const override { return "the connection"; }

    socket take() { return std::move(socket_); }

private:
    int begin() {
        begun_ = true;
        sockaddr_storage at = to_.bytes;
        auto* plain = reinterpret_cast<sockaddr*>(&at);
        return ::connect(socket_.descriptor(), plain, to_.size) == 0 ? 0 : errno;
    }
    int outcome() const {
        int error = 0;
        socklen_t size = sizeof error;
        if (::getsockopt(socket_.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size) != 0)
            return errno;
        return error;
    }
    [[noreturn]] void fail(int error) const {
        throw connection_error(error_kind::transient,
                               "cenote: cannot connect to " + to_.text + ": " + text_of(error), {},
                               error);
    }

    address to_;
    socket socket_;
    bool begun_ = false;
};

}  // namespace

void socket::close() noexcept {
    if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

template <>
completed<std::vector<address>> resolve<blocking>(std::string host, std::uint16_t port) {
    co_return look_up(host, port);
}

template <>
boost::asio::awaitable<std::vector<address>> resolve<awaited>(std::string host,
                                                              std::uint16_t port) {
    if (needs_no_lookup(host)) co_return look_up(host, port);
    auto call = [name = std::move(host), port] { return look_up(name, port); };
    std::vector<address> found = co_await async_run_function(std::move(call));
    co_return found;
}

std::string numeric_host(const address& of) {
    std::array<char, NI_MAXHOST> host{};
    const auto* at = reinterpret_cast<const sockaddr*>(&of.bytes);
    if (::getnameinfo(at, of.size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
        throw connection_error(error_kind::transient,
                               "cenote: the host has an address of an unknown kind");
    return host.data();
}

void enable_keepalive(int descriptor, const keepalive_options& settings) noexcept {
    auto set = [&](int level, int option, int value) {
        static_cast<void>(::setsockopt(descriptor, level, option, &value, sizeof value));
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(settings.idle.count()));
    set(IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>(settings.interval.count()));
    set(IPPROTO_TCP, TCP_KEEPCNT, settings.probes);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(settings.user_timeout.count()));
}

bool fits(const keepalive_options& settings) noexcept {
    constexpr std::chrono::seconds most{32'767};
    auto in_range = [&](std::chrono::seconds s) { return s.count() >= 1 && s <= most; };
    return in_range(settings.idle) && in_range(settings.interval) && settings.probes >= 1 &&
           settings.probes <= 127 && settings.user_timeout.count() >= 0 &&
           settings.user_timeout <= std::chrono::hours{24};
}

void close_on_exec(int descriptor) noexcept {
    if (descriptor >= 0) ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

socket_state check_socket(int descriptor) noexcept {
    char one = 0;
    for (;;) {
        ssize_t got = ::recv(descriptor, &one, 1, MSG_PEEK | MSG_DONTWAIT);
        if (got > 0) return socket_state::unread;
        if (got == 0) return socket_state::ended;
        if (errno == EINTR) continue;
        return errno == EAGAIN ? socket_state::quiet : socket_state::ended;
    }
}

instant share_of(instant deadline, std::size_t left) {
    if (deadline == instant::max() || left <= 1) return deadline;
    instant now = std::chrono::steady_clock::now();
    return now >= deadline ? deadline : now + (deadline - now) / static_cast<int>(left);
}

template <class Mode>
result_in<Mode, socket> connect(std::vector<address> to, instant deadline) {
    for (std::size_t i = 0;; ++i) {
        try {
            connecting one(to.at(i));
            co_await Mode::drive(one, share_of(deadline, to.size() - i));
            co_return one.take();
        } catch (const connection_error&) {
            if (i + 1 >= to.size()) throw;
        }
    }
}

template completed<socket> connect<blocking>(std::vector<address>, instant);
template boost::asio::awaitable<socket> connect<awaited>(std::vector<address>, instant);

}  // namespace cenote::connector_detail

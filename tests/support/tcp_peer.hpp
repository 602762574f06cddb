// Observes how far a server in the test's own process has read a client's bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "support/clock.hpp"
#include "support/patience.hpp"
#include "support/tcp_client.hpp"

namespace support {

inline std::uint16_t port_of(int fd, int (*which)(int, sockaddr*, socklen_t*)) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    void* filled = &address;
    if (which(fd, static_cast<sockaddr*>(filled), &size) != 0) return 0;
    return address.sin_family == AF_INET ? ntohs(address.sin_port) : std::uint16_t{0};
}

/// The server's descriptor of a client's connection, in this process; -1 if it is closed.
inline int other_end(const tcp_client& of) {
    std::uint16_t client = port_of(of.get(), ::getsockname);
    std::uint16_t server = port_of(of.get(), ::getpeername);
    for (int fd = 3; fd < 1024; ++fd)
        if (port_of(fd, ::getpeername) == client && port_of(fd, ::getsockname) == server) return fd;
    return -1;
}

/// Whether the kernel has received all bytes of the client; false if the connection has ended.
inline bool has_arrived(const tcp_client& from) {
    int end = other_end(from);
    int on = 1;
    int unacknowledged = 0;
    // Without this option the kernel delays acknowledgments.
    return end >= 0 && ::setsockopt(end, IPPROTO_TCP, TCP_QUICKACK, &on, sizeof on) == 0 &&
           ::ioctl(from.get(), SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0;
}

/// Whether the server has read all bytes of the client or has closed the connection.
inline bool has_been_read(const tcp_client& from) {
    int end = other_end(from);
    int unread = 0;
    return end < 0 || (has_arrived(from) && ::ioctl(end, FIONREAD, &unread) == 0 && unread == 0);
}

/// Advances the clock in steps until `holds`. On a busy machine many steps pass before a thread
/// runs, so no other time limit of the test may be near.
template <class Condition>
bool passes_until(stopped_clock& time, Condition&& holds,
                  std::chrono::nanoseconds step = std::chrono::milliseconds{50}) {
    return eventually([&] {
        if (holds()) return true;
        time.advance(step);
        return false;
    });
}

}  // namespace support

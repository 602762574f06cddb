// Sockets to servers: name lookup, connecting within a time limit, keepalive settings, and a check
// for unread bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

#include "cenote/keepalive.hpp"
#include "connector/drive.hpp"

namespace cenote::connector_detail {

/// Owns a descriptor.
class socket {
public:
    socket() noexcept = default;
    explicit socket(int descriptor) noexcept : descriptor_(descriptor) {}
    socket(socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
    socket& operator=(socket&& other) noexcept {
        if (this != &other) {
            close();
            descriptor_ = std::exchange(other.descriptor_, -1);
        }
        return *this;
    }
    ~socket() { close(); }

    int descriptor() const noexcept { return descriptor_; }
    explicit operator bool() const noexcept { return descriptor_ >= 0; }
    void close() noexcept;

private:
    int descriptor_ = -1;
};

/// One address of a server.
struct address {
    sockaddr_storage bytes{};
    socklen_t size = 0;
    std::string text;  // for messages: "127.0.0.1:5432"
};

/// All addresses of a host; a name that begins with a slash is a Unix socket. The awaited form
/// looks names up on a work thread. Throws connection_error: final if the name does not exist,
/// transient if the lookup failed.
template <class Mode>
result_in<Mode, std::vector<address>> resolve(std::string host, std::uint16_t port);
template <>
completed<std::vector<address>> resolve<blocking>(std::string host, std::uint16_t port);
template <>
boost::asio::awaitable<std::vector<address>> resolve<awaited>(std::string host, std::uint16_t port);

/// Connects to the first address that answers. Each address gets an equal share of the time that is
/// left. Throws the connection_error (transient) of the last address.
template <class Mode>
result_in<Mode, socket> connect(std::vector<address> to, instant deadline);

/// The deadline for the next of `left` attempts, so that each has an equal share of the time.
instant share_of(instant deadline, std::size_t left);

/// The address in digits, without its port. Throws connection_error (transient).
std::string numeric_host(const address& of);

/// Turns on keepalive and turns off Nagle's algorithm, for any descriptor. Ignores what a Unix
/// socket does not support.
void enable_keepalive(int descriptor, const keepalive_options& settings = {}) noexcept;
/// Whether the system accepts these values.
bool fits(const keepalive_options& settings) noexcept;

/// Closes the descriptor in programs that this process starts. For descriptors of client libraries.
void close_on_exec(int descriptor) noexcept;

/// The state of a socket, without reading from it.
enum class socket_state : std::uint8_t {
    quiet,   // no unread bytes
    unread,  // unread bytes
    ended,   // end of stream, or an error
};
socket_state check_socket(int descriptor) noexcept;

}  // namespace cenote::connector_detail

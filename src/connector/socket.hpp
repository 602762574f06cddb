// Sockets to servers: found by name, connected within a time, told to notice when the other side is
// gone, and looked at before they are used again.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <sys/socket.h>
#include <utility>
#include <vector>

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

/// One place a server may be at.
struct address {
    sockaddr_storage bytes{};
    socklen_t size = 0;
    std::string text;  // for people: "127.0.0.1:5432"
};

/// How soon a socket notices that nobody is there. For every connector the same.
struct vigilance {
    std::chrono::seconds idle{30};              // silent so long: ask
    std::chrono::seconds interval{10};          // and again
    int asks = 3;                               // so often, then it is dead
    std::chrono::milliseconds unheard{30'000};  // what was sent and not acknowledged for so long
};

/// All addresses of a host; a name that begins with a slash is a Unix socket. Blocks. Throws
/// connection_error: final if the name is unknown, transient if that could not be found out.
std::vector<address> resolve(const std::string& host, std::uint16_t port);
/// The same, off the event loop.
boost::asio::awaitable<std::vector<address>> async_resolve(std::string host, std::uint16_t port);

/// Makes the socket notice that nobody is there, and send at once. For descriptors of any origin;
/// what a Unix socket does not know is left out.
void make_vigilant(int descriptor, const vigilance& how = {}) noexcept;

/// No program that is started from now on has it. Sockets of our own are made like that.
void close_on_exec(int descriptor) noexcept;

/// What can be seen of a socket without reading from it.
enum class sight : std::uint8_t {
    quiet,   // nothing has come
    unread,  // something has come that nobody asked for, or has read
    ended,   // the other side is gone, or there was an error
};
sight look_at(int descriptor) noexcept;

/// When one of so many that are still to be tried must be done, if all get a fair part of the time.
instant share_of(instant deadline, std::size_t left);

/// Connects to the first address that answers. Throws connection_error (transient) that says what
/// became of the last one. Each address gets a fair part of the time that is left.
socket connect(const std::vector<address>& to, instant deadline);
boost::asio::awaitable<socket> async_connect(std::vector<address> to, instant deadline);

}  // namespace cenote::connector_detail

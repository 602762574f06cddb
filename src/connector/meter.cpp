// How many bytes were read from a socket, by the counters of the system.
#include "connector/meter.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace cenote::connector_detail {

namespace {

constexpr unsigned uncounted_reads = 4;
/// The least buffer space with which libpq reads.
constexpr std::uint64_t min_read_size = 8192;

std::uint64_t unread(int descriptor) noexcept {
    int bytes = 0;
    if (::ioctl(descriptor, FIONREAD, &bytes) != 0 || bytes < 0) return 0;
    return static_cast<std::uint64_t>(bytes);
}

/// The offset of tcpi_bytes_received in Linux's tcp_info; glibc's tcp_info lacks the member.
constexpr std::size_t offset_of_bytes = 128;

/// The bytes received since the connection was made. False: the socket is not TCP, or the system
/// is too old to count.
bool received(int descriptor, std::uint64_t& bytes) noexcept {
    std::array<std::byte, offset_of_bytes + sizeof bytes> info{};
    socklen_t size = info.size();
    if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, info.data(), &size) != 0) return false;
    if (size < info.size()) return false;
    std::memcpy(&bytes, &info[offset_of_bytes], sizeof bytes);
    return true;
}

}  // namespace

void meter::note_read(int descriptor) noexcept {
    if (++reads_ < uncounted_reads) return;
    const std::uint64_t left = unread(descriptor);
    std::uint64_t all = 0;
    if (!received(descriptor, all)) {
        if (left > 0) bytes_ += min_read_size;
        return;
    }
    const std::uint64_t taken = all > left ? all - left : 0;
    if (reads_ == uncounted_reads) first_ = taken;
    bytes_ = taken > first_ ? taken - first_ : 0;
}

}  // namespace cenote::connector_detail

// Counts what a client library reads from its socket: the library itself has no limit.
#pragma once

#include <cstdint>

namespace cenote::connector_detail {

/// The bytes of one reply. Exact for TCP but for the first few reads, which are not counted: most
/// replies have no more, and each count is two system calls. For a Unix socket, where the system
/// does not count, at least half of what libpq reads in messages of less than 8 KiB.
class meter {
public:
    /// The library has read from the socket, once.
    void note_read(int descriptor) noexcept;
    std::uint64_t bytes() const noexcept { return bytes_; }
    /// Another reply begins.
    void restart() noexcept { *this = meter(); }

private:
    unsigned reads_ = 0;
    std::uint64_t first_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace cenote::connector_detail

// Counts the bytes that libpq reads from its socket, since libpq has no limit of its own.
#pragma once

#include <cstdint>

namespace cenote::connector_detail {

/// The bytes of one reply. For TCP exact, except that the first few reads are not counted: most
/// replies need no more of them, and each count takes two system calls. For a Unix socket, where
/// the system does not count, at least half of what libpq reads in messages of less than 8 KiB.
class meter {
public:
    /// The library has read from the socket once.
    void note_read(int descriptor) noexcept;
    std::uint64_t bytes() const noexcept { return bytes_; }
    /// A new reply begins.
    void restart() noexcept { *this = meter(); }

private:
    unsigned reads_ = 0;
    std::uint64_t first_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace cenote::connector_detail

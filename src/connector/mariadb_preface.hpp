// What goes to a server of MariaDB's in front of the library's next request, in the same message,
// and the replies to that, which the library never sees. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace cenote::mariadb::detail {

/// A command as the server reads it: short enough for one packet.
std::string packet_of(unsigned char command, std::string_view argument);

/// Some packets, and as many replies that come before the library's.
class preface {
public:
    /// The packets must stay where they are until they are sent.
    void begin(std::string_view packets, std::size_t how_many) noexcept;

    /// What has not been sent yet.
    std::string_view unsent() const noexcept { return unsent_; }
    void note_sent(std::size_t bytes) noexcept { unsent_.remove_prefix(bytes); }

    /// Replies to it are still to come, or the server has refused one.
    bool is_open() const noexcept { return awaited_ > 0 || refused_; }
    /// Bytes have come: takes those out that belong to its replies. How many are left; they are at
    /// the front.
    std::size_t take_out(std::span<unsigned char> came) noexcept;

    /// The server has said no, or something else that is not yes. Whatever follows is not read.
    bool refused() const noexcept { return refused_; }
    unsigned code() const noexcept;
    std::string sqlstate() const;
    std::string text() const;

private:
    static constexpr std::size_t header_size = 4;

    std::size_t take_header(std::span<const unsigned char> came) noexcept;
    std::size_t take_body(std::span<const unsigned char> came) noexcept;
    void end_reply() noexcept;
    std::string_view said() const noexcept { return {said_.data(), kept_}; }

    std::string_view unsent_;
    std::size_t awaited_ = 0;
    bool refused_ = false;
    std::array<unsigned char, header_size> header_{};
    std::size_t headed_ = 0;  // bytes of the header that have come
    std::size_t left_ = 0;    // bytes of the reply that have not
    std::array<char, 512> said_{};
    std::size_t kept_ = 0;  // of the reply's beginning
};

}  // namespace cenote::mariadb::detail

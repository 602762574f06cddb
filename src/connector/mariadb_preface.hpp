// Packets to MariaDB in front of the library's next request, in one message with it, and the
// replies to them, which the library never sees. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace cenote::mariadb::detail {

/// A command in the protocol's form. Requires that it fits into one packet.
std::string packet_of(unsigned char command, std::string_view argument);
/// COM_QUERY.
std::string query_packet(std::string_view text);

/// Some packets and their replies, which come before the library's reply.
class preface {
public:
    /// `count`: of the packets and their replies. The packets stay valid until they are sent.
    /// `last_may_fail`: an error in reply to the last packet is no refusal; what follows is read.
    void begin(std::string_view packets, std::size_t count, bool last_may_fail = false) noexcept;

    /// The bytes that have not been sent yet.
    std::string_view unsent() const noexcept { return unsent_; }
    void note_sent(std::size_t bytes) noexcept { unsent_.remove_prefix(bytes); }

    /// Whether replies are still to come, or the server has refused a packet.
    bool is_open() const noexcept { return awaited_ > 0 || refused_; }
    /// Removes the replies from the bytes that have come. Returns the number of bytes that are
    /// left, at the front.
    std::size_t take_out(std::span<unsigned char> received) noexcept;

    /// A reply was not OK. What follows is not read.
    bool refused() const noexcept { return refused_; }
    /// The reply to the last packet was an error, as it may be.
    bool last_failed() const noexcept { return last_failed_; }
    // Of the refusal or that error.
    unsigned code() const noexcept;
    std::string sqlstate() const;
    std::string text() const;

private:
    static constexpr std::size_t header_size = 4;

    std::size_t take_header(std::span<const unsigned char> received) noexcept;
    std::size_t take_body(std::span<const unsigned char> received) noexcept;
    void end_reply() noexcept;
    std::string_view reply() const noexcept { return {reply_.data(), kept_}; }

    std::string_view unsent_;
    std::size_t awaited_ = 0;
    bool refused_ = false;
    bool last_may_fail_ = false;
    bool last_failed_ = false;
    std::array<unsigned char, header_size> header_{};
    std::size_t header_bytes_ = 0;  // that have come
    std::size_t left_ = 0;          // bytes of the reply that have not come
    std::array<char, 512> reply_{};
    std::size_t kept_ = 0;  // bytes of the reply's beginning
};

}  // namespace cenote::mariadb::detail

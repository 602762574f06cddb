// Writes packets of MariaDB's protocol, and removes their replies from what comes.
#include "connector/mariadb_preface.hpp"

#include <algorithm>

namespace cenote::mariadb::detail {

namespace {

constexpr unsigned char ok = 0;
constexpr unsigned char error = 0xff;

/// In an error packet: its code in two bytes, '#', the SQLSTATE in five characters, and the text.
constexpr std::size_t code_at = 1;
constexpr std::size_t sqlstate_at = 4;
constexpr std::size_t text_at = 9;

}  // namespace

std::string packet_of(unsigned char command, std::string_view argument) {
    const std::size_t size = 1 + argument.size();
    std::string packet;
    for (unsigned shift : {0U, 8U, 16U}) packet += static_cast<char>(size >> shift & 0xffU);
    packet += '\0';  // number of the packet in its exchange
    packet += static_cast<char>(command);
    return packet.append(argument);
}

std::string query_packet(std::string_view text) {
    constexpr unsigned char query = 3;
    return packet_of(query, text);
}

void preface::begin(std::string_view packets, std::size_t count, bool last_may_fail) noexcept {
    unsent_ = packets;
    awaited_ = count;
    refused_ = false;
    last_may_fail_ = last_may_fail;
    last_failed_ = false;
    header_bytes_ = 0;
}

std::size_t preface::take_out(std::span<unsigned char> received) noexcept {
    std::span<unsigned char> rest = received;
    while (!rest.empty() && awaited_ > 0 && !refused_)
        rest = rest.subspan(header_bytes_ < header_size ? take_header(rest) : take_body(rest));
    std::ranges::copy(rest, received.begin());
    return rest.size();
}

std::size_t preface::take_header(std::span<const unsigned char> received) noexcept {
    const std::size_t taken = std::min(received.size(), header_size - header_bytes_);
    std::copy_n(received.begin(), taken,
                header_.begin() + static_cast<std::ptrdiff_t>(header_bytes_));
    header_bytes_ += taken;
    if (header_bytes_ < header_size) return taken;
    left_ =
        std::size_t{header_[0]} | std::size_t{header_[1]} << 8U | std::size_t{header_[2]} << 16U;
    kept_ = 0;
    if (left_ == 0) refused_ = true;
    return taken;
}

std::size_t preface::take_body(std::span<const unsigned char> received) noexcept {
    const std::size_t taken = std::min(received.size(), left_);
    const std::size_t kept = std::min(taken, reply_.size() - kept_);
    std::transform(received.begin(), received.begin() + static_cast<std::ptrdiff_t>(kept),
                   reply_.begin() + static_cast<std::ptrdiff_t>(kept_),
                   [](unsigned char byte) { return static_cast<char>(byte); });
    kept_ += kept;
    left_ -= taken;
    if (left_ == 0) end_reply();
    return taken;
}

void preface::end_reply() noexcept {
    header_bytes_ = 0;
    const bool failed = static_cast<unsigned char>(reply_[0]) != ok;
    last_failed_ = failed && last_may_fail_ && awaited_ == 1 && code() != 0;
    if (failed && !last_failed_) refused_ = true;
    else --awaited_;
}

unsigned preface::code() const noexcept {
    if (kept_ < sqlstate_at || static_cast<unsigned char>(reply_[0]) != error) return 0;
    return static_cast<unsigned char>(reply_[code_at]) |
           static_cast<unsigned>(static_cast<unsigned char>(reply_[code_at + 1])) << 8U;
}

std::string preface::sqlstate() const {
    return code() == 0 || kept_ < text_at ? "" : std::string(reply().substr(sqlstate_at, 5));
}

std::string preface::text() const {
    if (code() == 0) return "the server has sent a malformed reply";
    return std::string(reply().substr(std::min(text_at, kept_)));
}

}  // namespace cenote::mariadb::detail

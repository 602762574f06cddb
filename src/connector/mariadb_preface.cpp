// Packets of the protocol's, written and taken out of what comes.
#include "connector/mariadb_preface.hpp"

#include <algorithm>

namespace cenote::mariadb::detail {

namespace {

constexpr unsigned char yes = 0;
constexpr unsigned char no = 0xff;

/// A refusal: its number in two bytes, '#', five characters, and text.
constexpr std::size_t number_at = 1;
constexpr std::size_t sqlstate_at = 4;
constexpr std::size_t text_at = 9;

}  // namespace

std::string packet_of(unsigned char command, std::string_view argument) {
    const std::size_t size = 1 + argument.size();
    std::string packet;
    for (unsigned shift : {0U, 8U, 16U}) packet += static_cast<char>(size >> shift & 0xffU);
    packet += '\0';  // the first of its exchange
    packet += static_cast<char>(command);
    return packet.append(argument);
}

void preface::begin(std::string_view packets, std::size_t how_many) noexcept {
    unsent_ = packets;
    awaited_ = how_many;
    refused_ = false;
    headed_ = 0;
}

std::size_t preface::take_out(std::span<unsigned char> came) noexcept {
    std::span<unsigned char> rest = came;
    while (!rest.empty() && awaited_ > 0 && !refused_)
        rest = rest.subspan(headed_ < header_size ? take_header(rest) : take_body(rest));
    std::ranges::copy(rest, came.begin());
    return rest.size();
}

std::size_t preface::take_header(std::span<const unsigned char> came) noexcept {
    const std::size_t taken = std::min(came.size(), header_size - headed_);
    std::copy_n(came.begin(), taken, header_.begin() + static_cast<std::ptrdiff_t>(headed_));
    headed_ += taken;
    if (headed_ < header_size) return taken;
    left_ =
        std::size_t{header_[0]} | std::size_t{header_[1]} << 8U | std::size_t{header_[2]} << 16U;
    kept_ = 0;
    if (left_ == 0) refused_ = true;
    return taken;
}

std::size_t preface::take_body(std::span<const unsigned char> came) noexcept {
    const std::size_t taken = std::min(came.size(), left_);
    const std::size_t kept = std::min(taken, said_.size() - kept_);
    std::transform(came.begin(), came.begin() + static_cast<std::ptrdiff_t>(kept),
                   said_.begin() + static_cast<std::ptrdiff_t>(kept_),
                   [](unsigned char byte) { return static_cast<char>(byte); });
    kept_ += kept;
    left_ -= taken;
    if (left_ == 0) end_reply();
    return taken;
}

void preface::end_reply() noexcept {
    headed_ = 0;
    if (static_cast<unsigned char>(said_[0]) == yes) --awaited_;
    else refused_ = true;
}

unsigned preface::code() const noexcept {
    if (kept_ < sqlstate_at || static_cast<unsigned char>(said_[0]) != no) return 0;
    return static_cast<unsigned char>(said_[number_at]) |
           static_cast<unsigned>(static_cast<unsigned char>(said_[number_at + 1])) << 8U;
}

std::string preface::sqlstate() const {
    return code() == 0 || kept_ < text_at ? "" : std::string(said().substr(sqlstate_at, 5));
}

std::string preface::text() const {
    if (code() == 0) return "the server's answer makes no sense";
    return std::string(said().substr(std::min(text_at, kept_)));
}

}  // namespace cenote::mariadb::detail

// Parses the responses of an untrusted HTTP server: everything is bounded, and the result does not
// depend on the pieces in which the bytes come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/http.hpp"

namespace cenote::http::detail {

class response_parser;

/// One response after the other, through one buffer.
class response_reader {
public:
    /// `max_header`: the limit of a head, together with informational responses before it ("100
    /// Continue"), and of a line between two chunks. From 1 KiB to 1 GiB.
    explicit response_reader(std::size_t max_header);
    response_reader(const response_reader&) = delete;
    response_reader& operator=(const response_reader&) = delete;
    ~response_reader();

    /// Begins a response. `to_head`: to a HEAD request, so it has no body. `max_body`: unset for a
    /// body that is streamed.
    void begin(bool to_head, std::optional<std::uint64_t> max_body);

    /// The buffer for the next bytes. Never empty.
    std::span<char> room();
    /// Parses bytes that were put into room(). Throws connection_error if the response is
    /// malformed; then the reader is unusable.
    void received(std::size_t bytes);
    /// The end of the stream. Throws connection_error if the response is incomplete.
    void ended();

    bool has_head() const noexcept { return has_head_; }
    bool done() const noexcept { return done_; }
    /// Whether a part of the body has come and was not taken.
    bool has_body() const noexcept { return taken_ < response_.body.size(); }
    /// Whether the connection can take another request after done(): the response allows it, its
    /// end is certain, and nothing has come after it.
    bool reusable() const noexcept;

    /// The whole response. Requires that no part of the body was taken.
    response take_response() noexcept { return std::exchange(response_, response()); }
    /// The response without its body.
    response take_head() noexcept;
    /// The part of the body that has come since the last call.
    std::string take_body();
    /// As much of it as fits.
    std::size_t take_body(std::span<char> into) noexcept;

private:
    friend class response_parser;

    std::string_view unread() const noexcept { return {buffer_.data() + first_, last_ - first_}; }
    void read_all();
    bool read_head();
    bool read_body();
    void begin_message();

    const std::size_t max_header_;
    std::vector<char> buffer_;
    std::size_t first_ = 0;     // the first unread byte
    std::size_t last_ = 0;      // behind the last unread byte
    std::size_t searched_ = 0;  // unread bytes without the end of the head
    std::size_t head_bytes_ = 0;

    bool to_head_ = false;
    std::optional<std::uint64_t> max_body_;
    std::unique_ptr<response_parser> parser_;
    response response_;
    std::size_t taken_ = 0;  // bytes of the body
    bool has_head_ = false;
    bool done_ = true;
};

}  // namespace cenote::http::detail

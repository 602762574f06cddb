// Boost.Beast's parser, fed in portions that do not depend on the pieces in which the bytes came.
#include "connector/http_reader.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/system/error_code.hpp>
#include <cstring>

#include "cenote/server_error.hpp"

namespace cenote::http::detail {

namespace beast = boost::beast;
using boost::system::error_code;

namespace {

constexpr std::size_t first_buffer = std::size_t{16} << 10;
constexpr std::size_t largest_read = std::size_t{64} << 10;

[[noreturn]] void refuse(const std::string& why) {
    throw connection_error(error_kind::connection,
                           "cenote: HTTP: cannot read the server's response: " + why);
}

}  // namespace

class response_parser final : public beast::http::basic_parser<false> {
public:
    explicit response_parser(response_reader& into) : into_(into) {
        header_limit(static_cast<std::uint32_t>(into.max_header_));
        if (into.max_body_) body_limit(*into.max_body_);
        else body_limit(boost::none);
        skip(into.to_head_);
    }

    /// HTTP/1.0 has no chunks: a server that sends them may be wrong about the end of the body,
    /// too.
    bool reusable() const { return is_done() && keep_alive() && !(chunked() && version_ == 10); }
    /// Whether a line with the length of a chunk comes next.
    bool between_chunks() const { return chunked() && chunk_left_ == 0; }

private:
    using text = beast::string_view;

    void on_request_impl(beast::http::verb, text, text, int, error_code&) override {}
    void on_response_impl(int code, text reason, int version, error_code&) override {
        into_.response_.status = code;
        into_.response_.reason.assign(reason.data(), reason.size());
        version_ = version;
    }
    /// Also called for fields after the body (trailers), which are ignored.
    void on_field_impl(beast::http::field which, text name, text value,
                       error_code& error) override {
        if (into_.has_head_) return;
        // The request accepts no other encoding. Beast refuses two of these fields, and one
        // together with a length.
        if (which == beast::http::field::transfer_encoding && !beast::iequals(value, "chunked"))
            error = beast::http::error::bad_transfer_encoding;
        into_.response_.headers.add(std::string(name), std::string(value));
    }
    void on_header_impl(error_code&) override {}
    void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
        // For a body that is not streamed; but little memory on the server's word alone.
        if (length && into_.max_body_)
            into_.response_.body.reserve(std::min<std::uint64_t>(*length, 1 << 20));
    }
    std::size_t on_body_impl(text piece, error_code&) override {
        into_.response_.body.append(piece.data(), piece.size());
        return piece.size();
    }
    void on_chunk_header_impl(std::uint64_t size, text, error_code&) override {
        chunk_left_ = size;
    }
    std::size_t on_chunk_body_impl(std::uint64_t left, text piece, error_code&) override {
        into_.response_.body.append(piece.data(), piece.size());
        chunk_left_ = left - piece.size();
        return piece.size();
    }
    void on_finish_impl(error_code&) override {}

    response_reader& into_;
    std::uint64_t chunk_left_ = 0;
    int version_ = 11;
};

response_reader::response_reader(std::size_t max_header)
    : max_header_(max_header), buffer_(first_buffer) {}
response_reader::~response_reader() = default;

void response_reader::begin(bool to_head, std::optional<std::uint64_t> max_body) {
    to_head_ = to_head;
    max_body_ = max_body;
    head_bytes_ = 0;
    begin_message();
}

void response_reader::begin_message() {
    response_ = response();
    taken_ = 0;
    has_head_ = done_ = false;
    searched_ = 0;
    parser_ = std::make_unique<response_parser>(*this);
}

/// There is room, or the buffer can grow: unread bytes are always fewer than max_header.
std::span<char> response_reader::room() {
    if (first_ == last_) first_ = last_ = 0;
    if (last_ == buffer_.size() && first_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + first_, last_ - first_);
        last_ -= first_;
        first_ = 0;
    }
    if (last_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
    return std::span(buffer_).subspan(last_);
}

void response_reader::received(std::size_t bytes) {
    last_ += bytes;
    bool full = first_ == 0 && last_ == buffer_.size();
    read_all();
    // A full buffer suggests a long response: makes the next read larger.
    if (full && !done_ && first_ == last_ && buffer_.size() < largest_read)
        buffer_.resize(buffer_.size() * 2);
}

void response_reader::read_all() {
    while (!done_ && first_ < last_ && (has_head_ ? read_body() : read_head())) {
    }
}

/// Beast limits the bytes of a head only while no line of it is complete, so it gets whole heads
/// only.
bool response_reader::read_head() {
    constexpr std::string_view beginning = "HTTP/1.";
    std::string_view seen = unread();
    if (!seen.starts_with(beginning.substr(0, seen.size()))) refuse("not HTTP/1");
    std::size_t from = searched_ < 3 ? 0 : searched_ - 3;
    std::size_t end = seen.find("\r\n\r\n", from);
    std::size_t size = end == seen.npos ? seen.size() : end + 4;
    if (head_bytes_ + size > max_header_ || (end == seen.npos && head_bytes_ + size == max_header_))
        refuse("the head is longer than max_header");
    searched_ = size;
    if (end == seen.npos) return false;

    error_code error;
    std::size_t used = parser_->put(boost::asio::buffer(seen.data(), size), error);
    if (error == beast::http::error::body_limit) refuse("the body is longer than max_body");
    if (error) refuse(error.message());
    if (used != size || !parser_->is_header_done()) refuse("the head is malformed");
    first_ += size;
    head_bytes_ += size;
    if (response_.status < 100 || response_.status == 101) refuse("unexpected status");
    if (response_.status < 200) {
        begin_message();  // an informational response, before the final one
        return true;
    }
    has_head_ = true;
    done_ = parser_->is_done();
    return true;
}

/// False: needs more bytes.
bool response_reader::read_body() {
    std::string_view seen = unread();
    bool line = parser_->between_chunks();
    // The shortest such line is the last one, "0\r\n\r\n"; with fewer bytes Beast asserts.
    if (line && seen.size() < 5) return false;
    if (line) seen = seen.substr(0, max_header_);
    error_code error;
    std::size_t used = parser_->put(boost::asio::buffer(seen.data(), seen.size()), error);
    first_ += used;
    done_ = parser_->is_done();
    if (error == beast::http::error::need_more) {
        if (line && seen.size() == max_header_)
            refuse("a line between chunks is longer than max_header");
        return used > 0;
    }
    if (error == beast::http::error::body_limit) refuse("the body is longer than max_body");
    if (error) refuse(error.message());
    return true;
}

void response_reader::ended() {
    if (done_) return;
    if (!has_head_) {
        if (first_ == last_ && head_bytes_ == 0)
            throw connection_error(
                error_kind::connection,
                "cenote: HTTP: the server closed the connection without a response");
        refuse("incomplete");
    }
    error_code error;
    if (parser_->need_eof()) parser_->put_eof(error);
    done_ = parser_->is_done();
    if (error || !done_) refuse("incomplete");
}

bool response_reader::reusable() const noexcept {
    return done_ && parser_ != nullptr && parser_->reusable() && first_ == last_;
}

response response_reader::take_head() noexcept {
    response head = take_response();
    response_.body.swap(head.body);
    return head;
}

std::string response_reader::take_body() {
    std::string piece = std::exchange(response_.body, std::string());
    piece.erase(0, std::exchange(taken_, 0));
    return piece;
}

std::size_t response_reader::take_body(std::span<char> into) noexcept {
    std::string_view left = std::string_view(response_.body).substr(taken_);
    std::size_t size = left.copy(into.data(), into.size());
    taken_ += size;
    if (taken_ == response_.body.size()) {
        response_.body.clear();
        taken_ = 0;
    }
    return size;
}

}  // namespace cenote::http::detail

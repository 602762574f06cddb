// Reads what an HTTP server answers, in whatever pieces it comes. A server is not to be trusted:
// all is bounded, and how the answer is cut into pieces makes no difference to what is read.
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

class answer_parser;

/// One answer after the other, out of a buffer that stays.
class response_reader {
public:
    /// At least 1 KiB, at most 1 GiB: of a head, with all that came before it ("100 Continue"), and
    /// of what stands between two chunks.
    explicit response_reader(std::size_t max_header);
    response_reader(const response_reader&) = delete;
    response_reader& operator=(const response_reader&) = delete;
    ~response_reader();

    /// Another answer comes, perhaps to a HEAD. A body that is too long is refused.
    void begin(bool to_head, std::optional<std::uint64_t> max_body);

    /// Where to put what comes next. Never empty.
    std::span<char> room();
    /// So much was put there, and is read. Throws connection_error if it is no proper answer; then
    /// there is no going on.
    void came(std::size_t bytes);
    /// Nothing will come any more. Throws connection_error if that is too early.
    void ended();

    bool has_head() const noexcept { return has_head_; }
    bool done() const noexcept { return done_; }
    /// Whether there is more of the body than was taken.
    bool has_body() const noexcept { return taken_ < answer_.body.size(); }
    /// Whether the connection may be used again, once it is done: the answer allows it, there can
    /// be no doubt about where it ends, and nothing has come after it.
    bool reusable() const noexcept;

    /// All of it, if nothing of the body was taken yet.
    response take_answer() noexcept { return std::exchange(answer_, response()); }
    /// All but the body.
    response take_head() noexcept;
    /// What has come of the body since last time.
    std::string take_body();
    /// At most so much of it.
    std::size_t take_body(std::span<char> into) noexcept;

private:
    friend class answer_parser;

    std::string_view unread() const noexcept { return {buffer_.data() + first_, last_ - first_}; }
    void read_all();
    bool read_head();
    bool read_body();
    void begin_message();

    const std::size_t max_header_;
    std::vector<char> buffer_;
    std::size_t first_ = 0;     // of what is unread
    std::size_t last_ = 0;      // behind it
    std::size_t searched_ = 0;  // so much of a head does not contain its end
    std::size_t head_bytes_ = 0;

    bool to_head_ = false;
    std::optional<std::uint64_t> max_body_;
    std::unique_ptr<answer_parser> parser_;
    response answer_;
    std::size_t taken_ = 0;  // so much of the body
    bool has_head_ = false;
    bool done_ = true;
};

}  // namespace cenote::http::detail

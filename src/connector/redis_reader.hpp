// Parses the replies of an untrusted Redis server: in pieces of any size, strictly, within a memory
// limit. Pure: bytes in, replies out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/redis.hpp"

namespace cenote::redis::detail {

/// Of the protocol's version 2 (RESP2), the server's default.
class reply_reader {
public:
    /// Of arrays in arrays.
    static constexpr std::size_t max_depth = 32;
    /// Of a line of text: a status or an error.
    static constexpr std::size_t max_line = std::size_t{64} << 10U;

    /// `limit`: the memory that one reply may take, in bytes.
    explicit reply_reader(std::size_t limit) noexcept : limit_(limit) {}

    /// Takes bytes up to the end of one reply, and returns their number. Throws connection_error at
    /// the first byte that cannot belong to a reply within the limit, and at every later call.
    std::size_t feed(std::string_view some);

    bool complete() const noexcept { return complete_; }
    /// Whether no byte of the next reply has been read.
    bool fresh() const noexcept { return state_ == state::type && !complete_ && open_.empty(); }
    /// Returns the reply, and is ready for the next one. Requires complete().
    reply take();

private:
    enum class state : std::uint8_t { type, line, line_end, bulk, bulk_end, broken };
    /// An array whose elements have not all come.
    struct level {
        reply::array elements;
        std::size_t expected;
    };

    std::size_t step(std::string_view some);
    void take_type(char c);
    std::size_t take_line(std::string_view some);
    std::size_t take_bulk(std::string_view some);
    void take_end(char c);
    void end_line();
    void begin_bulk();
    void begin_array();
    void add(reply made);
    std::int64_t number() const;
    std::size_t count() const;
    void charge(std::size_t room);
    [[noreturn]] static void refuse(const char* what);

    std::size_t limit_;
    std::size_t charged_ = 0;
    state state_ = state::type;
    bool complete_ = false;
    char type_ = 0;
    bool end_begun_ = false;   // '\r' has come, '\n' has not
    std::size_t missing_ = 0;  // bytes of the text
    std::string text_;
    std::vector<level> open_;
    reply whole_;
};

}  // namespace cenote::redis::detail

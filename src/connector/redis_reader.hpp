// Reads the replies of a Redis that nobody has to trust: in pieces of any size, strictly, and never
// with more memory than it was allowed. Pure: bytes in, replies out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/redis.hpp"

namespace cenote::redis::detail {

/// The protocol's second version (RESP2), which is what a server speaks that nobody told otherwise.
class reply_reader {
public:
    /// Arrays in arrays.
    static constexpr std::size_t deepest = 32;
    /// A line of text: a status or an error.
    static constexpr std::size_t longest_line = std::size_t{64} << 10U;

    /// `most`: the room one reply may take, as it lies in memory.
    explicit reply_reader(std::size_t most) noexcept : most_(most) {}

    /// Takes bytes up to the end of one reply, and says how many. Throws connection_error at the
    /// first byte that cannot belong to a reply, or to one that is small enough; from then on there
    /// is no telling what the bytes mean, and it throws whatever it is fed.
    std::size_t feed(std::string_view some);

    bool complete() const noexcept { return complete_; }
    /// Between two replies: nothing has been read of the next one.
    bool fresh() const noexcept { return state_ == state::type && !complete_ && open_.empty(); }
    /// Requires that it is complete. It is ready for the next one then.
    reply take();

private:
    enum class state : std::uint8_t { type, line, line_end, bulk, bulk_end, broken };
    /// An array that lacks elements.
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

    std::size_t most_;
    std::size_t charged_ = 0;
    state state_ = state::type;
    bool complete_ = false;
    char type_ = 0;
    bool end_begun_ = false;   // '\r' was there, '\n' is not yet
    std::size_t missing_ = 0;  // bytes of the text
    std::string text_;
    std::vector<level> open_;
    reply whole_;
};

}  // namespace cenote::redis::detail

// Fuzzes the reader of Redis replies: it accepts or refuses any input, the result does not depend
// on how the bytes are split, and memory stays within its limit.
#include "connector/redis_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cenote/server_error.hpp"

namespace {

using cenote::redis::reply;
using cenote::redis::detail::reply_reader;

constexpr std::size_t most = 20'000;

void require(bool holds) {
    if (!holds) std::abort();
}

struct outcome {
    std::vector<reply> replies;
    std::string refusal;
    bool fresh = true;
    bool operator==(const outcome&) const = default;
};

outcome read(std::string_view bytes, std::size_t (*piece)(std::size_t turn, std::size_t left)) {
    reply_reader reader(most);
    outcome o;
    try {
        for (std::size_t turn = 0; !bytes.empty(); ++turn) {
            std::string_view some =
                bytes.substr(0, std::max<std::size_t>(1, piece(turn, bytes.size())));
            std::size_t taken = reader.feed(some);
            require(taken > 0 && taken <= some.size());
            require(taken == some.size() || reader.complete());
            bytes.remove_prefix(taken);
            if (reader.complete()) o.replies.push_back(reader.take());
        }
        o.fresh = reader.fresh();
    } catch (const cenote::connection_error& e) {
        o.refusal = e.what();
    }
    return o;
}

std::size_t room(const reply& r) {
    std::size_t all = sizeof(reply);
    if (r.is_text()) all += r.text().size();
    if (r.is_error()) all += r.error_text().size();
    if (r.is_array())
        for (const reply& each : r.elements()) all += room(each);
    return all;
}

std::size_t depth(const reply& r) {
    std::size_t deepest = 0;
    if (!r.is_array()) return 0;
    for (const reply& each : r.elements()) deepest = std::max(deepest, depth(each));
    return deepest + 1;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const void* start = data;
    std::string_view bytes(static_cast<const char*>(start), size);
    outcome whole = read(bytes, [](std::size_t, std::size_t left) { return left; });
    outcome single = read(bytes, [](std::size_t, std::size_t) { return std::size_t{1}; });
    outcome mixed = read(bytes, [](std::size_t turn, std::size_t) { return turn * 7 % 13 + 1; });
    require(whole == single);
    require(whole == mixed);
    for (const reply& each : whole.replies) {
        require(room(each) <= most);
        require(depth(each) <= reply_reader::max_depth + 1);  // the innermost may be empty
    }
    return 0;
}

// Fuzzes the reader of HTTP responses: no input crashes it or exceeds its limits, and the result
// does not depend on how the bytes are split.
#include "connector/http_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "cenote/server_error.hpp"

namespace {

using cenote::http::response;
using cenote::http::detail::response_reader;

constexpr std::size_t max_header = 1024;
constexpr std::uint64_t max_body = 4096;

void require(bool holds) {
    if (!holds) std::abort();
}

struct outcome {
    bool refused = false;
    bool done = false;
    bool reusable = false;
    response answer;
};

/// Reads pieces of the sizes in `cuts`, repeated; without `cuts`, pieces of any size.
outcome read(std::string_view all, std::string_view cuts, bool to_head, bool streams) {
    response_reader reader(max_header);
    reader.begin(to_head, streams ? std::nullopt : std::optional(max_body));
    outcome o;
    std::string body;
    try {
        for (std::size_t i = 0; !all.empty(); ++i) {
            std::span<char> room = reader.room();
            require(!room.empty() && room.size() <= (std::size_t{1} << 17));
            std::size_t next =
                cuts.empty() ? all.size() : static_cast<unsigned char>(cuts[i % cuts.size()]) + 1U;
            std::size_t size = std::min({next, room.size(), all.size()});
            std::copy_n(all.begin(), size, room.begin());
            all.remove_prefix(size);
            reader.received(size);
            if (streams && reader.has_head()) body += reader.take_body();
        }
        reader.ended();
        require(reader.done());
    } catch (const cenote::connection_error&) {
        o.refused = true;
    }
    o.done = reader.done();
    o.reusable = reader.reusable();
    require(o.done || !o.reusable);
    o.answer = reader.take_response();
    if (streams) o.answer.body = body;
    else require(o.answer.body.size() <= max_body);
    return o;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    std::string_view input(reinterpret_cast<const char*>(data), size);
    bool to_head = (input[0] & 1) != 0;
    bool streams = (input[0] & 2) != 0;
    std::size_t count = static_cast<unsigned char>(input[1]) % 8;
    input.remove_prefix(2);
    std::string_view cuts = input.substr(0, count);
    input.remove_prefix(cuts.size());

    outcome whole = read(input, {}, to_head, streams);
    for (std::string_view each : {cuts, std::string_view("\0", 1)}) {
        outcome cut = read(input, each, to_head, streams);
        require(cut.refused == whole.refused);
        if (whole.refused) continue;
        require(cut.done == whole.done && cut.reusable == whole.reusable);
        require(cut.answer.status == whole.answer.status);
        require(cut.answer.headers == whole.answer.headers);
        require(cut.answer.body == whole.answer.body);
    }
    return 0;
}

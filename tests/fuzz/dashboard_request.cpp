// Fuzzes requests to the dashboard: no input crashes it, and control needs the token.
#include "watch/dashboard_request.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "watch/json.hpp"

namespace {

using namespace cenote;
using namespace cenote::detail;

constexpr std::string_view token = "sesame-sesame-sesame";
constexpr std::string_view host = "127.0.0.1:8080";

void require(bool holds) {
    if (!holds) std::abort();
}

std::string_view cut(std::string_view& from, char at) {
    std::size_t end = std::min(from.find(at), from.size());
    std::string_view piece = from.substr(0, end);
    from.remove_prefix(std::min(end + 1, from.size()));
    return piece;
}

bool has(const std::vector<header_field>& fields, std::string_view value) {
    for (const header_field& each : fields)
        if (each.value == value) return true;
    return false;
}

/// JSON text can be parsed again, and keeps its valid characters.
void check_json(std::string_view text) {
    auto read = parse_flat_object("{\"a\":" + json_text(text) + "}");
    require(read && read->size() == 1);
    require(json_text((*read)[0].text) == json_text(text));
}

}  // namespace

// A first line "METHOD TARGET", a line "Name: value" for each field, an empty line, the body.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const access_policy rules{.hosts = {std::string(host)},
                                     .read_token = secret("open-open-open-open"),
                                     .control_token = secret(token),
                                     .files = {"/", "/dashboard.css"},
                                     .metrics = true,
                                     .health = true};
    std::string_view input(reinterpret_cast<const char*>(data), size);
    check_json(input);
    static_cast<void>(parse_flat_object(input));

    raw_request request;
    request.method = cut(input, ' ');
    request.target = cut(input, '\n');
    std::vector<header_field> fields;
    while (!input.empty()) {
        std::string_view line = cut(input, '\n');
        if (line.empty()) break;
        std::string_view name = cut(line, ':');
        if (line.starts_with(' ')) line.remove_prefix(1);
        fields.push_back({name, line});
    }
    request.fields = fields;
    request.body = input;

    parsed_request a = parse_request(request, rules);
    if (a.status != 200) {
        require(*a.error != '\0' && a.status >= 400 && a.status < 500);
        return 0;
    }
    require(has(fields, host));
    switch (a.kind) {
        case resource_kind::file: require(a.file == "/" || a.file == "/dashboard.css"); break;
        case resource_kind::state: require(request.target.starts_with("/state")); break;
        case resource_kind::metrics: require(request.target.starts_with("/metrics")); break;
        case resource_kind::health: require(request.target.starts_with("/health")); break;
        case resource_kind::control:
            require(request.method == "POST" && request.target == "/control");
            bool has_token = false;
            for (const header_field& each : fields)
                has_token = has_token || each.value.ends_with(token);
            require(has_token);
            require((a.command.action == pool_action::resize) || a.command.max == 0);
            break;
    }
    return 0;
}

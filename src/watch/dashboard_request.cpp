// Checks a request, cheapest check first; the first failed check determines the response.
#include "watch/dashboard_request.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "watch/history.hpp"
#include "watch/json.hpp"

namespace cenote::detail {

namespace {

parsed_request refuse(unsigned status, const char* error) {
    return {.status = status, .error = error};
}

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, {}, lower, lower);
}

/// The header of a request. Field names ignore case.
class header {
    static auto named(std::string_view name) {
        return [name](const header_field& each) { return equal_ignoring_case(each.name, name); };
    }

public:
    explicit header(std::span<const header_field> fields) : fields_(fields) {}

    bool repeats(std::string_view name) const {
        return std::ranges::count_if(fields_, named(name)) > 1;
    }
    std::optional<std::string_view> get(std::string_view name) const {
        auto found = std::ranges::find_if(fields_, named(name));
        if (found == fields_.end()) return std::nullopt;
        return found->value;
    }

private:
    std::span<const header_field> fields_;
};

bool known_host(std::string_view host, const access_policy& policy) {
    return std::ranges::any_of(
        policy.hosts, [&](std::string_view each) { return equal_ignoring_case(each, host); });
}

/// Whether the request comes from the dashboard's own page or from a program that is no browser. A
/// page of another site cannot change these two fields.
bool is_same_origin(const header& fields, std::string_view host) {
    if (auto site = fields.get("sec-fetch-site"); site && *site != "same-origin" && *site != "none")
        return false;
    auto origin = fields.get("origin");
    if (!origin) return true;
    for (std::string_view scheme : {"http://", "https://"})
        if (origin->starts_with(scheme))
            return equal_ignoring_case(origin->substr(scheme.size()), host);
    return false;
}

bool has_token(const header& fields, const secret& token) {
    constexpr std::string_view scheme = "bearer ";
    auto given = fields.get("authorization");
    if (token.empty() || !given || given->size() <= scheme.size()) return false;
    if (!equal_ignoring_case(given->substr(0, scheme.size()), scheme)) return false;
    return secret(given->substr(scheme.size())) == token;
}

bool is_json(std::string_view type) {
    std::string_view essence = type.substr(0, type.find(';'));
    while (essence.ends_with(' ')) essence.remove_suffix(1);
    return equal_ignoring_case(essence, "application/json");
}

bool parse_number(std::string_view text, std::uint64_t& number) {
    auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && stopped == text.data() + text.size();
}

/// Removes the part before the next `mark` from the front of `text`, and the mark.
std::string_view take_part(std::string_view& text, char mark) {
    std::size_t at = std::min(text.find(mark), text.size());
    std::string_view part = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    return part;
}

/// Accepts `1,2,3` and nothing.
bool parse_details(std::string_view text, detailed_pools& details) {
    if (details) return false;  // given twice
    details.emplace();
    if (text.ends_with(',')) return false;
    while (!text.empty())
        if (!parse_number(take_part(text, ','), details->emplace_back())) return false;
    return true;
}

bool parse_step(std::string_view text, std::uint64_t& step) {
    return parse_number(text, step) &&
           std::ranges::find(history::steps, step) != history::steps.end();
}

/// Accepts `since=12`, `step=12` and `details=1,2,3`, each at most once, and an empty query.
bool parse_state_query(std::string_view query, parsed_request& into) {
    bool has_since = false;
    bool has_step = false;
    if (query.ends_with('&')) return false;
    while (!query.empty()) {
        std::string_view value = take_part(query, '&');
        std::string_view name = take_part(value, '=');
        if (name == "since" && !has_since) {
            has_since = true;
            if (!parse_number(value, into.since)) return false;
        } else if (name == "step" && !has_step) {
            has_step = true;
            if (!parse_step(value, into.step)) return false;
        } else if (name != "details" || !parse_details(value, into.details)) {
            return false;
        }
    }
    return true;
}

std::optional<pool_action> action_of(std::string_view name) {
    for (std::size_t i = 0; i < pool_action_count; ++i)
        if (name == to_string(static_cast<pool_action>(i))) return static_cast<pool_action>(i);
    return std::nullopt;
}

/// {"pool": "orders", "action": "resize", "max": 12}
std::optional<control_command> parse_command(std::string_view body) {
    auto members = parse_flat_object(body);
    if (!members) return std::nullopt;
    control_command command;
    bool has_pool = false;
    std::optional<pool_action> action;
    std::optional<std::uint64_t> max;
    for (json_member& each : *members) {
        if (each.name == "max" && each.number) {
            max = each.number;
        } else if (each.name == "pool" && !each.number) {
            command.pool = std::move(each.text);
            has_pool = true;
        } else if (each.name == "action" && !each.number) {
            action = action_of(each.text);
        } else {
            return std::nullopt;
        }
    }
    bool resizes = action == pool_action::resize;
    if (!has_pool || !action || resizes != max.has_value()) return std::nullopt;
    command.action = *action;
    command.max = max.value_or(0);
    return command;
}

parsed_request parse_control(const raw_request& request, const header& fields,
                             const access_policy& policy) {
    if (request.method != "POST") return refuse(405, "/control requires POST");
    if (policy.control_token.empty())
        return refuse(403, "control is disabled: no control_token is set");
    if (!has_token(fields, policy.control_token))
        return refuse(401, "the control token is required");
    if (!is_json(fields.get("content-type").value_or("")))
        return refuse(415, "/control requires Content-Type: application/json");
    auto command = parse_command(request.body);
    if (!command) return refuse(400, "malformed control command");
    parsed_request parsed;
    parsed.kind = resource_kind::control;
    parsed.command = std::move(*command);
    return parsed;
}

/// Whether reading may need a token.
bool has_data(std::string_view path) {
    return path == "/state" || path == "/metrics" || path == "/health";
}

parsed_request parse_read(const raw_request& request, const header& fields,
                          const access_policy& policy, std::string_view path,
                          std::string_view query) {
    if (request.method != "GET" && request.method != "HEAD")
        return refuse(405, "only GET and HEAD are allowed");
    if (!request.body.empty()) return refuse(400, "the request must not have a body");
    parsed_request parsed;
    if (path != "/state" && !query.empty()) return refuse(404, "not found");
    if (!has_data(path)) {
        parsed.file = path;
        parsed.if_none_match = fields.get("if-none-match").value_or("");
        return parsed;
    }
    bool allowed = policy.read_token.empty() || has_token(fields, policy.read_token) ||
                   has_token(fields, policy.control_token);
    if (!allowed) return refuse(401, "a token is required");
    if (path == "/metrics") parsed.kind = resource_kind::metrics;
    if (path == "/health") parsed.kind = resource_kind::health;
    if (path != "/state") return parsed;
    if (!parse_state_query(query, parsed))
        return refuse(400, "the query must be ?since=NUMBER&step=SECONDS&details=NUMBER,NUMBER");
    parsed.kind = resource_kind::state;
    return parsed;
}

}  // namespace

const char* to_string(pool_action action) noexcept {
    switch (action) {
        case pool_action::pause: return "pause";
        case pool_action::resume: return "resume";
        case pool_action::retire_all: return "retire_all";
        case pool_action::suspect_all: return "suspect_all";
        case pool_action::resize: return "resize";
        case pool_action::activate: return "activate";
        case pool_action::deactivate: return "deactivate";
        case pool_action::recover: return "recover";
    }
    return "?";
}

parsed_request parse_request(const raw_request& request, const access_policy& policy) {
    header fields(request.fields);
    for (const char* once : {"host", "origin", "authorization", "content-type", "sec-fetch-site"})
        if (fields.repeats(once)) return refuse(400, "a header field is repeated");
    auto host = fields.get("host");
    if (!host) return refuse(400, "the field Host is missing");
    if (!known_host(*host, policy)) return refuse(421, "unknown Host");

    std::size_t mark = std::min(request.target.find('?'), request.target.size());
    std::string_view path = request.target.substr(0, mark);
    std::string_view query = request.target.substr(std::min(mark + 1, request.target.size()));
    bool is_file = std::ranges::find(policy.files, path) != policy.files.end();
    bool is_known = is_file || path == "/state" || path == "/control" ||
                    (policy.metrics && path == "/metrics") || (policy.health && path == "/health");
    if (!is_known) return refuse(404, "not found");
    // Other sites may link to the page, but only the page itself may read the state or control.
    if (!is_file && !is_same_origin(fields, *host))
        return refuse(403, "cross-site requests are not allowed");
    if (path == "/control" && !query.empty()) return refuse(404, "not found");
    if (path == "/control") return parse_control(request, fields, policy);
    return parse_read(request, fields, policy, path, query);
}

}  // namespace cenote::detail

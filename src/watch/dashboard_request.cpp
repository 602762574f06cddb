// The checks, from the cheapest to the dearest; the first that fails is the answer.
#include "watch/dashboard_request.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "watch/json.hpp"

namespace cenote::detail {

namespace {

asked refuse(unsigned status, const char* why) {
    asked no;
    no.status = status;
    no.why = why;
    return no;
}

char small(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_word(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, {}, small, small);
}

/// The header, of which each field that matters may be there once.
class header {
    static auto named(std::string_view name) {
        return [name](const header_field& each) { return same_word(each.name, name); };
    }

public:
    explicit header(std::span<const header_field> fields) : fields_(fields) {}

    bool repeats(std::string_view name) const {
        return std::ranges::count_if(fields_, named(name)) > 1;
    }
    /// Nothing if it is not there.
    std::optional<std::string_view> get(std::string_view name) const {
        auto found = std::ranges::find_if(fields_, named(name));
        if (found == fields_.end()) return std::nullopt;
        return found->value;
    }

private:
    std::span<const header_field> fields_;
};

bool known_host(std::string_view host, const house_rules& rules) {
    return std::ranges::any_of(rules.hosts,
                               [&](std::string_view each) { return same_word(each, host); });
}

/// Whether the page that sends this is our own: a browser says where it comes from, and cannot be
/// made to lie. Other programs need not say anything.
bool comes_from_here(const header& fields, std::string_view host) {
    if (auto site = fields.get("sec-fetch-site"); site && *site != "same-origin" && *site != "none")
        return false;
    auto origin = fields.get("origin");
    if (!origin) return true;
    for (std::string_view scheme : {"http://", "https://"})
        if (origin->starts_with(scheme)) return same_word(origin->substr(scheme.size()), host);
    return false;
}

bool has_token(const header& fields, const secret& token) {
    constexpr std::string_view scheme = "bearer ";
    auto given = fields.get("authorization");
    if (token.empty() || !given || given->size() <= scheme.size()) return false;
    if (!same_word(given->substr(0, scheme.size()), scheme)) return false;
    return secret(given->substr(scheme.size())) == token;
}

bool is_json(std::string_view type) {
    std::string_view essence = type.substr(0, type.find(';'));
    while (essence.ends_with(' ')) essence.remove_suffix(1);
    return same_word(essence, "application/json");
}

/// `since=12`, or nothing at all.
bool read_since(std::string_view query, std::uint64_t& since) {
    if (query.empty()) return true;
    constexpr std::string_view name = "since=";
    if (!query.starts_with(name)) return false;
    query.remove_prefix(name.size());
    auto [stopped, error] = std::from_chars(query.data(), query.data() + query.size(), since);
    return error == std::errc{} && stopped == query.data() + query.size();
}

std::optional<pool_action> action_of(std::string_view word) {
    for (std::size_t i = 0; i < pool_action_count; ++i)
        if (word == to_string(static_cast<pool_action>(i))) return static_cast<pool_action>(i);
    return std::nullopt;
}

/// {"pool": "orders", "action": "resize", "max": 12}
std::optional<control_order> order_of(std::string_view body) {
    auto members = flat_json_object(body);
    if (!members) return std::nullopt;
    control_order order;
    bool has_pool = false;
    std::optional<pool_action> action;
    std::optional<std::uint64_t> max;
    for (json_member& each : *members) {
        if (each.name == "max" && each.number) {
            max = each.number;
        } else if (each.name == "pool" && !each.number) {
            order.pool = std::move(each.text);
            has_pool = true;
        } else if (each.name == "action" && !each.number) {
            action = action_of(each.text);
        } else {
            return std::nullopt;
        }
    }
    bool resizes = action == pool_action::resize;
    if (!has_pool || !action || resizes != max.has_value()) return std::nullopt;
    order.action = *action;
    order.max = max.value_or(0);
    return order;
}

asked understand_control(const raw_request& request, const header& fields,
                         const house_rules& rules) {
    if (request.method != "POST") return refuse(405, "to control takes a POST");
    if (rules.control_token.empty()) return refuse(403, "there is no control_token: look only");
    if (!has_token(fields, rules.control_token)) return refuse(401, "the control token is needed");
    if (!is_json(fields.get("content-type").value_or("")))
        return refuse(415, "to control takes application/json");
    auto order = order_of(request.body);
    if (!order) return refuse(400, "there is no such order");
    asked yes;
    yes.what = wanted::control;
    yes.order = std::move(*order);
    return yes;
}

asked understand_look(const raw_request& request, const header& fields, const house_rules& rules,
                      std::string_view path, std::string_view query) {
    if (request.method != "GET" && request.method != "HEAD")
        return refuse(405, "to look takes a GET");
    if (!request.body.empty()) return refuse(400, "to look takes no body");
    asked yes;
    if (path != "/state") {
        if (!query.empty()) return refuse(404, "there is nothing here");
        yes.file = path;
        yes.if_none_match = fields.get("if-none-match").value_or("");
        return yes;
    }
    bool may = rules.read_token.empty() || has_token(fields, rules.read_token) ||
               has_token(fields, rules.control_token);
    if (!may) return refuse(401, "a token is needed");
    if (!read_since(query, yes.since)) return refuse(400, "only ?since=number is understood");
    yes.what = wanted::state;
    return yes;
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

asked understand(const raw_request& request, const house_rules& rules) {
    header fields(request.fields);
    for (const char* once : {"host", "origin", "authorization", "content-type", "sec-fetch-site"})
        if (fields.repeats(once)) return refuse(400, "a field is there twice");
    auto host = fields.get("host");
    if (!host) return refuse(400, "there is no Host");
    if (!known_host(*host, rules)) return refuse(421, "not under this name");

    std::size_t mark = std::min(request.target.find('?'), request.target.size());
    std::string_view path = request.target.substr(0, mark);
    std::string_view query = request.target.substr(std::min(mark + 1, request.target.size()));
    bool is_file = std::ranges::find(rules.files, path) != rules.files.end();
    if (!is_file && path != "/state" && path != "/control")
        return refuse(404, "there is nothing here");
    // A link from elsewhere may lead to the page, but what is behind it is for the page alone.
    if (!is_file && !comes_from_here(fields, *host)) return refuse(403, "not from another site");
    if (path == "/control" && !query.empty()) return refuse(404, "there is nothing here");
    if (path == "/control") return understand_control(request, fields, rules);
    return understand_look(request, fields, rules, path, query);
}

}  // namespace cenote::detail

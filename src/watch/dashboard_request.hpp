// Parses and authorizes requests to the dashboard. Pure: no I/O, and no input is trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/secret.hpp"

namespace cenote::detail {

/// One field of a request's header.
struct header_field {
    std::string_view name;
    std::string_view value;
};

/// A request that is well-formed HTTP; nothing else has been checked.
struct raw_request {
    std::string_view method;
    std::string_view target;
    std::span<const header_field> fields;
    std::string_view body;
};

enum class pool_action : std::uint8_t {
    pause,
    resume,
    retire_all,
    suspect_all,
    resize,
    activate,
    deactivate,
    recover,
};
inline constexpr std::size_t pool_action_count = 8;

/// The name of an action, as in the enum.
const char* to_string(pool_action action) noexcept;

/// The ids of the pools whose details a client requests. Empty: all pools.
using detailed_pools = std::optional<std::vector<std::uint64_t>>;

/// A command to one pool.
struct control_command {
    std::string pool = {};
    pool_action action{};
    std::size_t max = 0;  ///< For `resize`.
};

enum class resource_kind : std::uint8_t { file, state, control, metrics, health };

/// A request that was understood, or the status and reason of its refusal.
struct parsed_request {
    unsigned status = 200;  ///< If not 200, the request is refused because of `error`.
    const char* error = "";

    resource_kind kind{};
    std::string_view file = {};           ///< For `file`: its path, one of access_policy::files.
    std::string_view if_none_match = {};  ///< For `file`; may be empty.
    std::uint64_t since = 0;              ///< For `state`: the last sample the client has.
    detailed_pools details = {};          ///< For `state`.
    std::uint64_t step = 1;               ///< For `state`: the seconds of a sample of the history.
    control_command command = {};         ///< For `control`.
};

/// Which requests are allowed.
struct access_policy {
    /// Accepted values of `Host`, with port, in lower case. Any other is refused, which defeats DNS
    /// rebinding.
    std::vector<std::string> hosts;
    /// Required to read the state. Empty: no token is required.
    secret read_token;
    /// Required for control, and also allows reading. Empty: control is disabled.
    secret control_token;
    /// The paths of the page's files.
    std::vector<std::string> files;
    /// Whether these paths exist.
    bool metrics = false;
    bool health = false;
};

/// The result refers to memory of the request.
parsed_request parse_request(const raw_request& request, const access_policy& policy);

}  // namespace cenote::detail

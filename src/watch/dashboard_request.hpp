// What a request to the dashboard asks for, and whether it may; pure, as nobody has to be trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/secret.hpp"

namespace cenote::detail {

/// A field of a request's header.
struct header_field {
    std::string_view name;
    std::string_view value;
};

/// A request as it came: well-formed HTTP, and nothing else is known of it.
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

/// The word for an action, as in the enum.
const char* to_string(pool_action action) noexcept;

/// What somebody who may do so wants done.
struct control_order {
    std::string pool;
    pool_action action{};
    std::size_t max = 0;  ///< With `resize`.
};

enum class wanted : std::uint8_t { file, state, control };

/// What is to be answered.
struct asked {
    unsigned status = 200;  ///< Another one: no, and `why`.
    const char* why = "";

    wanted what{};
    std::string_view file;           ///< With `file`: one of those there are.
    std::string_view if_none_match;  ///< With `file`; may be empty.
    std::uint64_t since = 0;         ///< With `state`: the last that was seen.
    control_order order;             ///< With `control`.
};

/// Who may come in, and for what.
struct house_rules {
    /// What `Host` may say, with the port, in small letters. Whoever lures a browser here under a
    /// name of his own (DNS rebinding) is not served.
    std::vector<std::string> hosts;
    /// Empty: everybody may look.
    secret read_token;
    /// Empty: nobody may control. Whoever may control may also look.
    secret control_token;
    /// The paths that have a file each.
    std::vector<std::string> files;
};

/// Views in the answer are views of the request.
asked understand(const raw_request& request, const house_rules& rules);

}  // namespace cenote::detail

// Where a server is and how to speak to it, in one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cenote/secret.hpp"

namespace cenote {

/// A URL that cannot be used. The text names what is wrong and where, and quotes no more of the URL
/// than the name of a parameter: what looks like a host may be half a password.
class invalid_url : public std::invalid_argument {
public:
    using std::invalid_argument::invalid_argument;
};

/// `scheme://user:password@host:port,host:port/path?key=value&key=value`
///
/// Strict: what has a meaning in a URL and is meant otherwise must be percent-encoded, also an '@'
/// in a password. At most 8 KiB and 128 parameters; no key twice; no zero bytes; no fragment. A
/// host that begins with a slash (percent-encoded) is the path of a Unix socket.
struct url {
    static constexpr std::size_t longest = 8192;
    static constexpr std::size_t most_parameters = 128;

    struct host {
        std::string name;        ///< Without the brackets of an IPv6 address.
        std::uint16_t port = 0;  ///< 0: none was given.
        bool operator==(const host&) const = default;
    };

    std::string scheme;  ///< In lower case.
    std::string user;
    secret password;
    std::vector<host> hosts;
    bool has_authority = false;  ///< Whether there was a `//`.
    std::string path;            ///< Decoded, with its leading slash.
    std::vector<std::pair<std::string, std::string>> parameters;  ///< Decoded, in order.

    /// Throws invalid_url.
    static url parse(std::string_view text);
    /// The URL again, but for the password, of which it only says that there is one.
    std::string redacted() const;
};

/// Whether everything said to this host stays on this machine: a loopback address, "localhost", or
/// a Unix socket.
bool is_loopback(std::string_view host);

/// The parameters of a URL, taken one by one; what nobody takes is refused.
class url_parameters {
public:
    explicit url_parameters(const url& of) : left_(of.parameters) {}

    std::optional<std::string> take(std::string_view key);
    /// "on", "true", "1", "yes" and their opposites. Throws invalid_url that names the key.
    std::optional<bool> take_bool(std::string_view key);
    /// Within these bounds. Throws invalid_url that names the key.
    std::optional<std::int64_t> take_number(std::string_view key, std::int64_t least,
                                            std::int64_t most);
    /// Seconds, or with a unit: "250ms", "5s", "2min". Throws invalid_url that names the key.
    std::optional<std::int64_t> take_milliseconds(std::string_view key);
    /// Throws invalid_url that names the first key nobody took.
    void refuse_others() const;

private:
    std::vector<std::pair<std::string, std::string>> left_;
};

}  // namespace cenote

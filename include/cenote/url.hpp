// URLs that say where a server is and how to connect to it.
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

/// A URL that cannot be used. The text names what is wrong and where. It quotes nothing of the URL
/// except for the key of a parameter: what looks like a host may be a part of a password.
///
/// Other notations, such as `host=db dbname=orders` or `jdbc:postgresql://db/orders`, are answered
/// with the URL to use instead, which has `***` in place of the password.
class invalid_url : public std::invalid_argument {
public:
    using std::invalid_argument::invalid_argument;
};

/// `scheme://user:password@host:port,host:port/path?key=value&key=value`
///
/// The parser is strict. A character with a meaning in URLs must be percent-encoded where it is
/// meant as text: `%40` for an '@' in a password, `%2F` for a '/'. It refuses zero bytes,
/// fragments, a key that appears twice, and all that exceeds the limits below. A host that begins
/// with a slash (percent-encoded: `%2Frun%2Fdb.sock`) is the path of a Unix socket.
struct url {
    /// The longest URL, in bytes.
    static constexpr std::size_t longest = 8192;
    /// The largest number of parameters.
    static constexpr std::size_t most_parameters = 128;

    /// One host of the list.
    struct host {
        std::string name;        ///< An IPv6 address has no brackets here.
        std::uint16_t port = 0;  ///< 0: the URL has none; the connector uses its default.
        bool operator==(const host&) const = default;
    };

    std::string scheme;          ///< In lower case.
    std::string user;            ///< Decoded; may be empty.
    secret password;             ///< Decoded; may be empty.
    std::vector<host> hosts;     ///< In order; empty if the URL has none.
    bool has_authority = false;  ///< Whether the scheme is followed by `//`.
    std::string path;            ///< Decoded, with its leading slash.
    /// Keys and decoded values, in order.
    std::vector<std::pair<std::string, std::string>> parameters;

    /// Throws invalid_url.
    static url parse(std::string_view text);
    /// The URL without its parameters, for logs. In place of the password it has `***`.
    std::string redacted() const;
};

/// Whether nothing that is sent to this host leaves the machine: a loopback address, "localhost",
/// or a Unix socket. Connectors turn TLS on by default for all other hosts.
bool is_loopback(std::string_view host);

/// The parameters of a URL, for a connector that turns them into options: it takes each key that it
/// knows, and then refuses the others.
///
///     cenote::url_parameters all(u);
///     auto timeout = all.take_milliseconds("connect_timeout");
///     auto name = all.take("client_name");
///     all.refuse_others();
///
/// Each take_ function returns nothing if the URL does not have the key, and throws invalid_url
/// with the key in its text if the value does not fit.
class url_parameters {
public:
    /// Copies the parameters.
    explicit url_parameters(const url& of) : left_(of.parameters) {}

    /// Takes a parameter out; empty if the URL does not have it.
    std::optional<std::string> take(std::string_view key);
    /// "on", "true", "1", "yes", or "off", "false", "0", "no".
    std::optional<bool> take_bool(std::string_view key);
    /// A decimal number from `least` to `most`.
    std::optional<std::int64_t> take_number(std::string_view key, std::int64_t least,
                                            std::int64_t most);
    /// A whole number of seconds, or with a unit: "250ms", "5s", "2min", "1h".
    std::optional<std::int64_t> take_milliseconds(std::string_view key);
    /// Takes out all parameters whose keys begin with the prefix; returns the keys without it.
    std::vector<std::pair<std::string, std::string>> take_all(std::string_view prefix);
    /// Throws invalid_url if there is a key that was not taken.
    void refuse_others() const;

    /// Throws invalid_url: `the URL parameter "key"`, and then the reason. Keep the value out of
    /// the reason: it may be a secret.
    [[noreturn]] static void refuse(std::string_view key, const std::string& why);

private:
    std::vector<std::pair<std::string, std::string>> left_;
};

}  // namespace cenote

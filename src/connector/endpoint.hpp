// Texts of the servers that connectors connect to, without users and secrets.
#pragma once

#include <cstdint>
#include <string>

namespace cenote::connector_detail {

/// "db1:5432", "[::1]:5432"; for a Unix socket its path.
inline std::string endpoint_of(const std::string& host, std::uint16_t port) {
    if (host.starts_with('/')) return host;
    bool is_v6 = host.find(':') != std::string::npos;
    return (is_v6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

}  // namespace cenote::connector_detail

// How a connection is protected, where the connector does that itself (Redis, HTTP).
#pragma once

#include <string>

namespace cenote {

/// TLS 1.2 or later. The other side's certificate must be valid and issued for its name.
struct tls_options {
    std::string ca_file;           ///< Whom to trust; empty: whom the system trusts.
    std::string server_name;       ///< Whom to expect; empty: the host of the URL.
    std::string certificate_file;  ///< Our own, where the server asks for one.
    std::string key_file;
    /// Speaks to whoever answers. For experiments only: who can read along can also answer.
    bool unsafe_accept_anybody = false;
};

}  // namespace cenote

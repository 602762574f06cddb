// User and password for each new connection: from a function, a file or the environment.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "cenote/secret.hpp"

namespace cenote {

/// What a connection logs in with: `return cenote::credentials("app", secret(text));`
struct credentials {
    // Constructors, because g++ 12 destroys a temporary aggregate twice if an initializer contains
    // a co_await.
    credentials() = default;
    /// For the user of the connector's options.
    explicit credentials(secret with) : password(std::move(with)) {}
    /// For any user.
    credentials(std::string as, secret with) : user(std::move(as)), password(std::move(with)) {}

    std::string user;  ///< Empty: the user of the connector's options.
    secret password;   ///< Empty: the login has no password.
};

/// Returns the credentials for one open. Open connections stay as they are when the credentials
/// change. It may block, and is called from several threads at once. The open fails with what it
/// throws, and the pool tries again later.
using credentials_source = std::function<credentials()>;

/// Reads the password from the first line of a file, at each open. The source throws
/// connection_error (transient) if the file cannot be read, is not a regular file, has more than 64
/// KiB, or has no password.
credentials_source password_from_file(std::string path);

/// Reads the password from an environment variable, at each open. The source throws
/// connection_error (transient) if the variable is not set. No thread may change the environment
/// meanwhile.
credentials_source password_from_environment(std::string name);

}  // namespace cenote

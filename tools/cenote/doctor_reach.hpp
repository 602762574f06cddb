// The way to a server, step by step: its name, its port, its certificate. No login, no secret.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "doctor_facts.hpp"

namespace doctor {

/// What is said before TLS can begin.
enum class preamble : std::uint8_t { none, postgres, mariadb };

/// How to get there.
struct way {
    std::string host;  ///< A path is a Unix socket, of which there is nothing to learn.
    std::uint16_t port = 0;
    nanoseconds timeout = std::chrono::seconds(5);
    bool tls = false;  ///< Whether the connector would speak TLS.
    preamble before_tls = preamble::none;
    std::string ca_file = {};      ///< Empty: whom the system trusts.
    std::string server_name = {};  ///< Empty: the host.
};

/// Looks the name up, connects, and looks at the certificate if the server offers TLS. Fills in
/// what it learns; `wrong` if that was not even a connection.
void look_along(const way& there, facts& into);

/// What an open failed with, after a look along the way.
void explain_failure(const std::exception& e, bool wanted_tls, facts& into);

}  // namespace doctor

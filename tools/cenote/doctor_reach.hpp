// Inspects the route to a server: name lookup, TCP connection, TLS certificate. Sends no login.
#pragma once

#include <cstdint>
#include <exception>
#include <string>

#include "doctor_facts.hpp"

namespace doctor {

/// The protocol messages that precede the TLS handshake.
enum class preamble : std::uint8_t { none, postgres, mariadb };

struct route {
    std::string host;  ///< A path is a Unix socket, which is not inspected.
    std::uint16_t port = 0;
    nanoseconds timeout = std::chrono::seconds(5);
    bool tls = false;  ///< The connector would use TLS.
    preamble before_tls = preamble::none;
    std::string ca_file = {};      ///< Empty: the system's authorities.
    std::string server_name = {};  ///< Empty: the host.
};

/// Looks the name up, connects, and reads the certificate if the server offers TLS. Sets
/// `into.error` if there is no TCP connection.
void inspect_route(const route& to, facts& into);

/// Sets `into.error` for a failed open; uses what inspect_route() found.
void explain_failure(const std::exception& e, bool wants_tls, facts& into);

}  // namespace doctor

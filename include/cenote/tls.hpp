// TLS options of the connectors that make TLS connections themselves: Redis and HTTP.
#pragma once

#include <string>

namespace cenote {

/// A connection uses TLS 1.2 or later. The server's certificate must be valid, must have been
/// issued by a trusted authority, and must be for the expected name. Files are in PEM format. Redis
/// reads them at each open, HTTP when the connector is made.
struct tls_options {
    /// Default: those of the system. A file with the certificates of the trusted authorities. Set
    /// it for servers whose certificates come from an authority of your own.
    std::string ca_file;
    /// Default: the host. The name for which the certificate must be. Set it if the host is an
    /// address, or an internal name that the certificate does not have.
    std::string server_name;
    /// Default none. A file with the client's own certificate and the certificates between it and
    /// its authority. Set it if the server asks clients for certificates.
    std::string certificate_file;
    /// Default: the key is in certificate_file. A file with the key of that certificate, without a
    /// passphrase.
    std::string key_file;
    /// Default false. True: accepts any certificate. For experiments only: an attacker between the
    /// client and the server can read and change everything, the password included.
    bool unsafe_accept_any_certificate = false;
};

}  // namespace cenote

// Creates certificates for test servers: a valid one, and some that clients must reject.
#pragma once

#include <filesystem>
#include <string>

#include "support/warded_process.hpp"

namespace support {

struct certificate {
    std::filesystem::path file;
    std::filesystem::path key;
};

/// A new authority and the certificates that it signs, in the given folder.
class certificates {
public:
    explicit certificates(const temporary_folder& folder);

    /// The authority's certificate, for clients.
    const std::filesystem::path& authority() const { return authority_.file; }
    /// Another authority, which has signed none of these certificates.
    certificate stranger() const { return make_authority("stranger"); }

    /// For localhost and 127.0.0.1.
    certificate good() const;
    /// For elsewhere.example.
    certificate wrong_name() const;
    /// For localhost, expired.
    certificate expired() const;
    /// For a client, with the name of this user.
    certificate client(const std::string& user) const;

private:
    certificate make_authority(const std::string& name) const;
    /// Dates have openssl's format: year, month, day, time, zone.
    certificate sign(const std::string& name, const std::string& host, const std::string& from,
                     const std::string& until) const;

    const temporary_folder& folder_;
    certificate authority_;
};

}  // namespace support

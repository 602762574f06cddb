// Certificates for servers on this machine: one that is good, and those that must be refused.
#pragma once

#include <filesystem>
#include <string>

#include "support/warded_process.hpp"

namespace support {

struct certificate {
    std::filesystem::path file;
    std::filesystem::path key;
};

/// An authority of one's own and what it has signed, in a folder of somebody else's.
class certificates {
public:
    explicit certificates(const temporary_folder& folder);

    /// Whom to trust.
    const std::filesystem::path& authority() const { return authority_.file; }
    /// Another authority, which has signed nothing here.
    certificate stranger() const { return make_authority("stranger"); }

    /// For localhost and 127.0.0.1.
    certificate good() const;
    /// For elsewhere.example.
    certificate wrong_name() const;
    /// For localhost, and long over.
    certificate expired() const;

private:
    certificate make_authority(const std::string& name) const;
    /// Dates as openssl writes them: year, month, day, time, zone.
    certificate sign(const std::string& name, const std::string& host, const std::string& from,
                     const std::string& until) const;

    const temporary_folder& folder_;
    certificate authority_;
};

}  // namespace support

// A host name whose lookup fails at once without any DNS request: one label is longer than DNS
// allows.
#pragma once

#include <string>

namespace support {

inline const std::string no_such_host = std::string(64, 'x') + ".invalid";

}  // namespace support

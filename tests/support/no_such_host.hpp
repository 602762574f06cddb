// A name that is looked up at once and in vain, whatever the machine's name servers do: a part of
// it is longer than DNS allows, so no server is asked.
#pragma once

#include <string>

namespace support {

inline const std::string no_such_host = std::string(64, 'x') + ".invalid";

}  // namespace support

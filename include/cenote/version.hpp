// The version of cenote. CMakeLists.txt reads it from here.
#pragma once

#include <string_view>

/// The version for the preprocessor.
#define CENOTE_VERSION_MAJOR 0
#define CENOTE_VERSION_MINOR 1
#define CENOTE_VERSION_PATCH 0
#define CENOTE_VERSION_STRING "0.1.0"

/// One number for comparisons: `#if CENOTE_VERSION >= 200` is version 0.2.0 or later.
#define CENOTE_VERSION \
    (CENOTE_VERSION_MAJOR * 10000 + CENOTE_VERSION_MINOR * 100 + CENOTE_VERSION_PATCH)

namespace cenote {

/// The parts of the version.
inline constexpr int version_major = CENOTE_VERSION_MAJOR;
inline constexpr int version_minor = CENOTE_VERSION_MINOR;
inline constexpr int version_patch = CENOTE_VERSION_PATCH;
/// As CENOTE_VERSION.
inline constexpr int version = CENOTE_VERSION;
/// "0.1.0", for people.
inline constexpr std::string_view version_text = CENOTE_VERSION_STRING;

}  // namespace cenote

// What happens to a resource after an exception or at the end of a lease.
#pragma once

#include <cstdint>

namespace cenote {

/// What a connector's `classify` and `classify_open` say about an exception, and its
/// `before_release` about a resource whose lease ends. From `classify_open`, every verdict except
/// `final` means: try to open again later.
enum class verdict : std::uint8_t {
    keep,     ///< The resource is fine. The error was about the request (a constraint, a typo).
    reset,    ///< The resource works and must be reset before its next use.
    discard,  ///< The resource is broken.
    final,    ///< Broken, and another open will fail in the same way (a wrong password or name).
    suspect,  ///< Broken, and so may be all resources as old as it (the server restarted, the
              ///< primary was demoted). See lease::discard_and_suspect().
    /// From `before_release`: the resource works and owes a reset, which its next use makes, or the
    /// pool after options::reset_after. Elsewhere: like `reset`.
    reset_later,
};

}  // namespace cenote

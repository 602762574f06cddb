// Counts allocations and makes chosen ones fail: replaces the global operator new.
#pragma once

#include <cstddef>
#include <cstdint>

namespace support {

/// Allocations of the calling thread so far.
std::uint64_t allocations_here();

/// Allocations not freed yet, of all threads.
std::int64_t allocations_alive();

/// While it lives, an allocation of this thread fails: the one after `spared` others, not counting
/// those that are smaller than `at_least`.
class allocation_failure {
public:
    enum class scope { once, from_then_on, once_on_any_thread };

    explicit allocation_failure(std::uint64_t spared, scope = scope::once,
                                std::size_t at_least = 0);
    ~allocation_failure();
    allocation_failure(const allocation_failure&) = delete;
    allocation_failure& operator=(const allocation_failure&) = delete;

    /// Whether one has failed.
    bool happened() const;
};

}  // namespace support

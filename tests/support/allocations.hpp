// Replaces the global operator new: counts allocations and makes chosen ones fail.
#pragma once

#include <cstddef>
#include <cstdint>

namespace support {

/// Allocations of the calling thread so far.
std::uint64_t allocations_here();

/// Allocations of all threads so far.
std::uint64_t allocations_made();

/// Allocations of all threads that are not freed yet.
std::int64_t allocations_alive();

/// During its lifetime, one allocation of this thread fails, after `spared` successful ones of at
/// least `at_least` bytes.
class allocation_failure {
public:
    enum class scope { once, from_then_on, once_on_any_thread };

    explicit allocation_failure(std::uint64_t spared, scope = scope::once,
                                std::size_t at_least = 0);
    ~allocation_failure();
    allocation_failure(const allocation_failure&) = delete;
    allocation_failure& operator=(const allocation_failure&) = delete;

    /// Whether an allocation has failed.
    bool happened() const;
};

}  // namespace support

// Counts this process's threads and descriptors, to detect leaks.
#pragma once

#include <cstddef>
#include <filesystem>
#include <iterator>

namespace support {

inline std::size_t entries_of(const char* folder) {
    auto entries = std::filesystem::directory_iterator(folder);
    return static_cast<std::size_t>(
        std::distance(std::filesystem::begin(entries), std::filesystem::end(entries)));
}

inline std::size_t thread_count() { return entries_of("/proc/self/task"); }

/// Includes the descriptor used for counting.
inline std::size_t descriptor_count() { return entries_of("/proc/self/fd"); }

}  // namespace support

// Lists the descriptors that a child process inherits.
#pragma once

#include <array>
#include <cstdio>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

namespace support {

/// The targets of the descriptors that a child has after exec, without the pipes and devices of its
/// standard streams.
inline std::multiset<std::string> descriptors_of_a_child() {
    const char* list = "for f in /proc/$$/fd/*; do readlink $f; done";
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> child(::popen(list, "r"), &::pclose);
    if (child == nullptr) throw std::runtime_error("cannot start a child");
    std::multiset<std::string> all;
    std::array<char, 4096> line{};
    while (std::fgets(line.data(), line.size(), child.get()) != nullptr) {
        std::string what = line.data();
        if (!what.starts_with("pipe:") && !what.starts_with("/dev/") && !what.starts_with("/proc/"))
            all.insert(what);
    }
    return all;
}

}  // namespace support

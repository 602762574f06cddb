// The rules of cenote doctor: from facts about a server to findings. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "doctor_facts.hpp"

namespace doctor {

enum class severity : std::uint8_t {
    problem,  ///< Will fail.
    warning,  ///< May fail.
    note,
    ok,
};
const char* to_string(severity s) noexcept;

struct finding {
    severity how{};
    std::string code;  ///< Stable; listed in docs/guide/command.md.
    std::string what;
    std::string why = {};   ///< Why it matters.
    std::string then = {};  ///< What to do.
};

/// Sorted by severity. `now` is compared with the certificate's expiry date.
std::vector<finding> judge(const facts& f, const planned& p,
                           std::chrono::system_clock::time_point now);

bool has_problem(const std::vector<finding>& all);

}  // namespace doctor

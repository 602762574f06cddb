// What the facts about a server mean for a pool on it. Pure: facts in, findings out.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "doctor_facts.hpp"

namespace doctor {

enum class severity : std::uint8_t {
    problem,  ///< It will go wrong.
    warning,  ///< It may.
    note,     ///< Good to know.
    ok,
};
const char* to_string(severity s) noexcept;

struct finding {
    severity how{};
    std::string code;  ///< For programs, and to look it up: docs/guide/command.md.
    std::string what;
    std::string why = {};   ///< Why it matters.
    std::string then = {};  ///< What to do.
};

/// The worst first, otherwise in the order of a connection's life. `now` is today, for dates.
std::vector<finding> judge(const facts& f, const planned& p,
                           std::chrono::system_clock::time_point now);

/// Whether somebody should do something before this goes live.
bool has_problem(const std::vector<finding>& all);

}  // namespace doctor

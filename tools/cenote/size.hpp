// cenote size: recommends a pool size from measurements and simulation.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "command.hpp"
#include "password.hpp"

namespace sizing {

struct settings {
    std::string url;  // empty: a temporary SQLite file
    command::password_source password;
    std::string statement;
    double rate = 0;
    double reach = 0.8;
    std::size_t concurrency = 32;
    std::size_t up_to = 32;
    std::size_t processes = 1;
    std::size_t limit = 0;  // zero: ask the server
    double writes = 0.2;
    std::chrono::nanoseconds hold{};
    std::chrono::nanoseconds duration = std::chrono::seconds{20};
    bool brute_force = false;
    std::uint64_t seed = 1;
    std::string svg;
    command::look look;
};

CLI::App* add_to(CLI::App& app, settings& into);
int run(const settings& how);

}  // namespace sizing

// cenote demo: runs a service under load, with a dashboard of its pools.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "command.hpp"
#include "password.hpp"

namespace demo {

struct settings {
    std::string url;  // empty: a temporary SQLite file
    command::password_source password;
    std::chrono::nanoseconds duration = std::chrono::seconds(20);
    bool stay = false;  // until Ctrl-C
    std::size_t clients = 64;
    std::size_t connections = 8;
    std::chrono::nanoseconds think = std::chrono::milliseconds(10);  // between two requests
    std::uint16_t dashboard_port = 0;
    bool plain = false;  // print a line per second instead of updating one
    command::look look;
};

CLI::App* add_to(CLI::App& app, settings& into);
int run(const settings& how);

}  // namespace demo

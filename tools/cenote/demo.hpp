// cenote demo: a service under load, with a page that shows its pools, for people to watch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "command.hpp"
#include "password.hpp"

namespace demo {

struct settings {
    std::string url;  // empty: an SQLite file that goes when the demo ends
    command::password_source password;
    std::chrono::nanoseconds lasts = std::chrono::seconds(20);
    bool stay = false;  // until it is interrupted
    std::size_t clients = 64;
    std::size_t connections = 8;
    std::chrono::nanoseconds think = std::chrono::milliseconds(10);  // between two requests
    std::uint16_t dashboard_port = 0;
    bool plain = false;  // a line per second instead of one that changes
    command::look look;
};

CLI::App* add_to(CLI::App& app, settings& into);
/// Returns what the program does.
int run(const settings& how);

}  // namespace demo

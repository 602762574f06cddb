// cenote bench: runs a load through pools of one or several sizes on a real server.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "command.hpp"
#include "password.hpp"

namespace bench {

struct settings {
    std::string url;  // empty: a temporary SQLite file
    command::password_source password;
    std::string statement;
    std::vector<std::size_t> sizes = {8};
    std::size_t concurrency = 16;
    double rate = 0;
    double writes = 0.2;
    std::size_t loops = 0;  // zero: each borrower is a thread
    std::chrono::nanoseconds hold{};
    std::chrono::nanoseconds duration = std::chrono::seconds{5};
    std::chrono::nanoseconds warm_up = std::chrono::milliseconds{500};
    std::chrono::nanoseconds acquire_timeout = std::chrono::seconds{5};
    std::uint64_t seed = 1;
    std::string json_file;
    std::string html;
    command::look look;
};

CLI::App* add_to(CLI::App& app, settings& into);
int run(const settings& how);

}  // namespace bench

// cenote doctor: connects to a server and reports what would fail in production.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "command.hpp"
#include "doctor_facts.hpp"
#include "password.hpp"

namespace doctor {

struct settings {
    std::string url;
    command::password_source password;
    std::chrono::nanoseconds timeout = std::chrono::seconds(5);
    std::chrono::nanoseconds idle{};  // 0: skip the idle check
    planned pool;
    command::look look;
};

CLI::App* add_to(CLI::App& app, settings& into);
int run(const settings& how);

}  // namespace doctor

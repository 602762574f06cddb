// cenote completion: scripts by which shells complete the command's words and options.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace completion {

struct settings {
    std::string shell;
    const CLI::App* command = nullptr;  // the whole command
};

CLI::App* add_to(CLI::App& app, settings& into);
int run(const settings& how);

/// The script for "bash", "zsh" or "fish", made from what the command knows of itself.
std::string script_for(const std::string& shell, const CLI::App& command);

}  // namespace completion

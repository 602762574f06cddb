// cenote completion: prints shell scripts that complete subcommands and options.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace completion {

struct settings {
    std::string shell;
    const CLI::App* command = nullptr;  // the main command, with all subcommands
};

CLI::App* add_to(CLI::App& app, settings& into);
int run(const settings& how);

/// The script for "bash", "zsh" or "fish", generated from the option parser.
std::string script_for(const std::string& shell, const CLI::App& command);

}  // namespace completion

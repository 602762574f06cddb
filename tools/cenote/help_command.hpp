// cenote help: the help of a subcommand, or a topic.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace help_command {

struct settings {
    const CLI::App* command = nullptr;
    std::vector<std::string> topics;
};

/// After all other subcommands: it lists them.
CLI::App* add_to(CLI::App& app, settings& into);
int run(const settings& how);

}  // namespace help_command

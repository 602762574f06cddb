// cenote manual: prints manual pages for man(1).
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace manual {

struct settings {
    std::string subcommand;             // empty: the page of cenote itself
    const CLI::App* command = nullptr;  // the main command, with all subcommands
};

CLI::App* add_to(CLI::App& app, settings& into);
int run(const settings& how);

/// The page in roff, generated from the option parser. `subcommand` may be null.
std::string page_of(const CLI::App& command, const CLI::App* subcommand);

}  // namespace manual

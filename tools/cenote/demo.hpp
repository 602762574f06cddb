// cenote demo: many coroutines share a few connections to a database, for people to watch.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace CLI {
class App;
}

namespace demo {

struct settings {
    std::string url;  // empty: an SQLite file that goes when the demo ends
    double seconds = 15;
    std::size_t coroutines = 200;
    std::size_t connections = 8;
    std::size_t threads = 2;  // of the event loop
    bool plain = false;       // a line per second instead of one that changes
};

CLI::App* add_to(CLI::App& app, settings& into);
/// Returns what the program does.
int run(const settings& how);

}  // namespace demo

// cenote: the command. Each word of it is a file of its own.
#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

#include "demo.hpp"

int main(int argc, char** argv) {
    CLI::App app{"cenote: a pool of reusable resources"};
    app.require_subcommand(1);
    demo::settings demo_settings;
    CLI::App* demo_command = demo::add_to(app, demo_settings);
    CLI11_PARSE(app, argc, argv);
    try {
        if (demo_command->parsed()) return demo::run(demo_settings);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
    }
    return 1;
}

// Entry point of a cenote with only the subcommand demo, which builds in half the time.
#include "command.hpp"
#include "demo.hpp"

int main(int argc, char** argv) {
    return command::run(argc, argv, {command::make_subcommand(demo::add_to, demo::run)});
}

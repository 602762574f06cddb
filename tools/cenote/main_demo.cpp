// cenote: the command with the demo alone, which builds in half the time.
#include "command.hpp"
#include "demo.hpp"

int main(int argc, char** argv) {
    return command::run(argc, argv, {command::make_word(demo::add_to, demo::run)});
}

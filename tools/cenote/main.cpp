// Entry point of the command cenote; each subcommand has its own source file.
#include "bench.hpp"
#include "command.hpp"
#include "completion.hpp"
#include "demo.hpp"
#include "doctor.hpp"
#include "manual.hpp"
#include "simulate.hpp"
#include "size.hpp"

int main(int argc, char** argv) {
    return command::run(argc, argv,
                        {
#ifdef CENOTE_HAS_DEMO
                            command::make_subcommand(demo::add_to, demo::run),
#endif
                            command::make_subcommand(bench::add_to, bench::run),
                            command::make_subcommand(sizing::add_to, sizing::run),
                            command::make_subcommand(doctor::add_to, doctor::run),
                            command::make_subcommand(simulation::add_to, simulation::run),
                            command::make_subcommand(completion::add_to, completion::run),
                            command::make_subcommand(manual::add_to, manual::run),
                        });
}

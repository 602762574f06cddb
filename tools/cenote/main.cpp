// cenote: the command. Each word of it is a file of its own.
#include "bench.hpp"
#include "command.hpp"
#include "completion.hpp"
#include "demo.hpp"
#include "doctor.hpp"
#include "simulate.hpp"
#include "size.hpp"

int main(int argc, char** argv) {
    return command::run(argc, argv,
                        {
#ifdef CENOTE_HAS_DEMO
                            command::make_word(demo::add_to, demo::run),
#endif
                            command::make_word(bench::add_to, bench::run),
                            command::make_word(sizing::add_to, sizing::run),
                            command::make_word(doctor::add_to, doctor::run),
                            command::make_word(simulation::add_to, simulation::run),
                            command::make_word(completion::add_to, completion::run),
                        });
}

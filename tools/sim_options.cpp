// The options of cenote-sim and their help.
#include "sim_options.hpp"

#include <CLI/CLI.hpp>

namespace sim_options {

std::optional<int> read(int argc, char** argv, settings& s) {
    CLI::App app{
        "Simulates the machine of a pool: one seed is one run. The last line is the hash of the\n"
        "trace; the same seed gives the same hash on every machine and with every compiler."};
    app.add_option("--seed", s.seed, "run this one seed, and shrink it if it fails");
    app.add_option("--seeds", s.seeds, "run this number of seeds, counted from --from");
    app.add_option("--from", s.from, "first of --seeds")->capture_default_str();
    app.add_option("--fresh", s.fresh, "also run this number of random seeds");
    app.add_option("--steps", s.steps, "decisions per seed")->capture_default_str();
    app.add_option("--jobs", s.jobs, "threads")->capture_default_str()->check(CLI::Range(1u, 256u));
    app.add_option("--replay", s.replay, "carry out the decisions in this file")
        ->check(CLI::ExistingFile);
    app.add_option("--save", s.save, "write the shrunk decisions of a failure to this file");
    if (s.faulty) {
        app.add_option("--plant", s.plant, "plant this fault first");
        app.add_flag("--plants", s.plants, "plant every fault in turn; fail if one is not found");
        app.add_flag("--without-express", s.without_express,
                     "take the long way always; the trace is the same");
        app.add_flag("--list-plants", s.list_plants, "list the faults that can be planted");
    }
    app.add_flag("--verbose", s.verbose, "print the decisions of --seed, or progress of --seeds");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e);
    }
    return std::nullopt;
}

}  // namespace sim_options

// The options of cenote-sim and their help.
#include "sim_options.hpp"

#include <CLI/CLI.hpp>

namespace sim_options {

std::optional<int> read(int argc, char** argv, settings& s) {
    CLI::App app{
        "Runs simulated pools and checks each step against a reference model. A seed selects a\n"
        "run. The last line is the hash of the run: the same seed gives the same hash on every "
        "machine\n"
        "and with every compiler. 'cenote sim' prints such a run step by step."};
    app.footer(
        "Exit status: 0 no failure, 1 a run failed, 2 a file cannot be read, others: invalid\n"
        "arguments.");
    app.add_option("--seed", s.seed, "Run this seed; if it fails, find a short run that fails");
    app.add_option("--seeds", s.seeds, "Run this number of seeds, beginning with --from");
    app.add_option("--from", s.from, "First seed of --seeds")->capture_default_str();
    app.add_option("--fresh", s.fresh, "Also run this number of random seeds");
    app.add_option("--steps", s.steps, "Steps per seed")->capture_default_str();
    app.add_option("--jobs", s.jobs, "Number of threads")
        ->capture_default_str()
        ->check(CLI::Range(1u, 256u));
    app.add_option("--replay", s.replay, "Replay the steps in this file")->check(CLI::ExistingFile);
    app.add_option("--save", s.save, "Write the short run of a failure to this file");
    if (s.faulty) {
        app.add_option("--plant", s.plant, "Add this fault to the pool first");
        app.add_flag("--plants", s.plants, "Add each fault in turn; fail if one is not found");
        app.add_flag("--without-express", s.without_express,
                     "Always use the path without shortcuts; the hash is the same");
        app.add_flag("--list-plants", s.list_plants, "List the faults for --plant");
    }
    app.add_flag("--verbose", s.verbose, "Print the steps of --seed, or the progress of --seeds");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        return app.exit(e);
    }
    return std::nullopt;
}

}  // namespace sim_options

// Options that choose the server and the statements; shared by cenote bench and cenote size.
#include <string>

#include <CLI/CLI.hpp>

#include "target.hpp"

namespace load {

void add_target(CLI::App& subcommand, std::string& url, std::string& statement, double& writes) {
    subcommand.add_option(
        "URL", url,
        "Server: postgresql://…, mariadb://… or sqlite:/path; creates a table "
        "cenote_bench_… and drops it at the end. Default: a temporary SQLite file");
    subcommand.add_option("--mix", writes, "The share of operations that write, from 0 to 1")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    subcommand
        .add_option("--statement", statement,
                    "Run this statement, without parameters, instead of reading and changing "
                    "an order book")
        ->option_text("SQL");
}

}  // namespace load

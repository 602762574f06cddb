// Options that choose the server and the statements; shared by cenote bench and cenote size.
#include <string>

#include <CLI/CLI.hpp>

#include "checks.hpp"
#include "target.hpp"

namespace load {

void add_target(CLI::App& subcommand, std::string& url, std::string& statement, double& writes) {
    subcommand.add_option(
        "URL", url,
        "Server: postgresql://…, mariadb://… or sqlite:/path. The program creates a table "
        "cenote_bench_… there and drops it at the end, unless --statement is given. Default: a "
        "temporary SQLite file");
    subcommand.add_option("--mix", writes, "Share of the leases that write, from 0 to 1")
        ->capture_default_str()
        ->check(command::from_to(0.0, 1.0));
    subcommand
        .add_option("--statement", statement,
                    "Run this statement, without parameters, instead of reading and changing "
                    "an order book")
        ->option_text("SQL");
}

}  // namespace load

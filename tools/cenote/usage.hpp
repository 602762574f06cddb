// Usage errors in plain language, and arguments that are a connection string in several words.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace command {

/// The error of the option parser, as a sentence about the argument. Quotes no argument without an
/// option: it may be a password.
std::string describe(const CLI::App& app, const CLI::ParseError& e);

/// Throws cenote::invalid_url if the arguments of a subcommand with a URL are a connection string
/// or the command line of a client, without quotes around it: `cenote doctor host=db user=app`.
void refuse_split_notation(const CLI::App& subcommand, const std::vector<std::string>& arguments);

}  // namespace command

// Formats help texts and suggests the closest name.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

namespace command {

/// CLI11's formatter with wrapped lines and simpler value placeholders.
class help final : public CLI::Formatter {
public:
    help();
    std::string make_description(const CLI::App* subcommand) const override;
    std::string make_subcommand(const CLI::App* subcommand) const override;
    std::string make_option_opts(const CLI::Option* option) const override;
    std::string make_option_desc(const CLI::Option* option) const override;
    std::string make_footer(const CLI::App* subcommand) const override;
};

/// The placeholder of an option's value: "N", "TIME", "auto|always|never", "N=8" with a default;
/// empty for a flag.
std::string value_placeholder(const CLI::Option& option);

/// Sets the text below the options: examples and notes, then the exit status. Lines that begin with
/// a space are not wrapped.
void add_footer(CLI::App& subcommand, const std::string& notes,
                const std::vector<std::pair<int, std::string>>& exit_status);

/// Null if there is none.
const CLI::App* subcommand_named(const std::string& name, const CLI::App& app);
/// The subcommand with the most similar name; empty if none is similar.
std::string closest_subcommand(const std::string& name, const CLI::App& app);
/// The option with the most similar name ("--max"); empty if none is similar.
std::string closest_option(const std::string& name, const CLI::App& of);

}  // namespace command

// Formats help texts and suggests the closest subcommand.
#pragma once

#include <string>

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
};

/// The placeholder of an option's value: "N", "TIME", "auto|always|never", "N=8" with a default;
/// empty for a flag.
std::string value_placeholder(const CLI::Option& option);

/// The subcommand with the most similar name; empty if none is similar.
std::string closest_subcommand(const std::string& name, const CLI::App& app);

}  // namespace command

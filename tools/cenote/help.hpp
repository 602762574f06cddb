// How the command's help looks.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace command {

/// CLI11's, but broken into lines, and with plain words for what an option takes.
class help final : public CLI::Formatter {
public:
    help();
    std::string make_description(const CLI::App* word) const override;
    std::string make_subcommand(const CLI::App* word) const override;
    std::string make_option_opts(const CLI::Option* option) const override;
    std::string make_option_desc(const CLI::Option* option) const override;
};

/// What an option takes, in one word: "N", "TIME", "auto|always|never"; empty for a flag. The
/// default, if there is one, comes after a '='.
std::string taken_by(const CLI::Option& option);

/// The word that was meant, probably; empty if none is near.
std::string nearest(const std::string& said, const CLI::App& app);

}  // namespace command

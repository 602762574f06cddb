// Reads passwords from a file, the environment or a terminal, so that no argument contains them.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace command {

/// Where the password of a URL comes from. By default from the environment variable
/// CENOTE_PASSWORD, if it is set and the URL has a user without a password.
struct password_source {
    std::string file;  ///< The password is the first line; "-" is stdin.
    bool ask = false;  ///< Ask at the terminal.
};

/// Adds --password-file and --ask-password.
void add_password(CLI::App& subcommand, password_source& into);

/// The URL with the password from the source. Throws failure.
std::string complete_url(const std::string& url, const password_source& from);

/// The URL with this password. Throws wrong_arguments if it already has one or cannot have one.
std::string with_password(std::string_view url, std::string_view password);

/// Asks at the terminal with this descriptor, without echo. Throws failure on error and Ctrl-C.
std::string ask_password(int terminal);

}  // namespace command

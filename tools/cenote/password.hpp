// Passwords that are not among the arguments, where other users of the machine could see them.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
}

namespace command {

/// Where the password of a URL comes from. Without any of these, from the environment variable
/// CENOTE_PASSWORD, if that is set and the URL has a user but no password.
struct password_source {
    std::string file;  ///< Its first line; "-": that of stdin.
    bool ask = false;  ///< At the terminal.
};

/// Adds --password-file and --ask-password.
void add_password(CLI::App& word, password_source& into);

/// The URL with its password, wherever that comes from. Throws failure.
std::string complete_url(const std::string& url, const password_source& from);

/// The URL with this password in it. Throws wrong_arguments if it has one already, or no place for
/// one.
std::string with_password(std::string_view url, std::string_view password);

/// Asks at a terminal, by its descriptor, and shows nothing of what is typed. Throws failure, also
/// if Ctrl-C is typed.
std::string ask_password(int terminal);

}  // namespace command

// Reads passwords and inserts them into URLs.
#include "password.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <termios.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "command.hpp"
#include <cenote/url.hpp>

namespace command {

namespace {

constexpr const char* variable = "CENOTE_PASSWORD";

/// Where the user name and password of a URL are: between `://` and an '@'.
struct user_part {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool has_at_sign = false;
    bool has_password = false;
};

user_part find_user(std::string_view url) {
    constexpr std::string_view separator = "://";
    std::size_t found = url.find(separator);
    if (found == std::string_view::npos) {
        // Throws if this is another notation.
        static_cast<void>(cenote::url::parse(url));
        throw wrong_arguments("this URL cannot have a password",
                              "Only URLs such as postgresql://user@host/database have passwords.");
    }
    user_part user{.begin = found + separator.size()};
    std::string_view authority = url.substr(user.begin);
    authority = authority.substr(0, authority.find_first_of("/?#"));
    std::size_t at = authority.rfind('@');
    user.has_at_sign = at != std::string_view::npos;
    user.end = user.begin + (user.has_at_sign ? at : 0);
    user.has_password =
        url.substr(user.begin, user.end - user.begin).find(':') != std::string_view::npos;
    return user;
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string encoded;
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (plain) encoded += c;
        else ((encoded += '%') += digits[byte >> 4U]) += digits[byte & 15U];
    }
    return encoded;
}

std::string first_line(std::istream& from, const std::string& name) {
    std::string line;
    if (!std::getline(from, line) && line.empty()) throw failure(name + " contains no password");
    if (line.ends_with('\r')) line.pop_back();
    return line;
}

std::string password_in(const std::string& file) {
    if (file == "-") return first_line(std::cin, "the standard input");
    std::ifstream in(file);
    if (!in) throw failure("cannot read the password file '" + file + "': " + std::strerror(errno));
    return first_line(in, "the password file '" + file + "'");
}

constexpr const char* no_terminal = "there is no terminal to ask for the password";

/// Turns off echo and line buffering; the destructor restores the terminal's settings.
class hidden_input {
public:
    explicit hidden_input(int terminal) : terminal_(terminal) {
        if (::tcgetattr(terminal_, &before_) != 0) throw failure(no_terminal);
        termios now = before_;
        now.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | ISIG);
        ::tcsetattr(terminal_, TCSAFLUSH, &now);
    }
    ~hidden_input() { ::tcsetattr(terminal_, TCSAFLUSH, &before_); }
    hidden_input(const hidden_input&) = delete;
    hidden_input& operator=(const hidden_input&) = delete;

private:
    int terminal_;
    termios before_{};
};

void print(int terminal, std::string_view text) {
    static_cast<void>(!::write(terminal, text.data(), text.size()));
}

}  // namespace

void add_password(CLI::App& subcommand, password_source& into) {
    CLI::Option* file =
        subcommand
            .add_option("--password-file", into.file,
                        "Read the password of the URL's user from the first line of this file (-: "
                        "standard input). Default: the environment variable CENOTE_PASSWORD")
            ->option_text("FILE");
    subcommand
        .add_flag("--ask-password", into.ask,
                  "Ask for the password of the URL's user at the terminal")
        ->excludes(file);
}

std::string with_password(std::string_view url, std::string_view password) {
    user_part user = find_user(url);
    if (user.has_password)
        throw wrong_arguments("a password was given, but the URL already contains one");
    std::string result(url.substr(0, user.end));
    result += ':' + percent_encoded(password);
    if (!user.has_at_sign) result += '@';
    return result += url.substr(user.end);
}

std::string ask_password(int terminal) {
    constexpr char interrupt = 3;
    constexpr char end = 4;
    constexpr char clear = 21;
    hidden_input hidden(terminal);
    print(terminal, "Password: ");
    std::string typed;
    for (char key = 0; ::read(terminal, &key, 1) == 1;) {
        if (key == '\n' || key == '\r' || key == end) break;
        if (key == interrupt) {
            print(terminal, "\n");
            throw failure("interrupted", "", interrupted);
        }
        if (key == clear) typed.clear();
        else if (key != '\b' && key != '\x7f') typed += key;
        else if (!typed.empty()) typed.pop_back();
    }
    print(terminal, "\n");
    return typed;
}

std::string complete_url(const std::string& url, const password_source& from) {
    // Check the URL before the password is read or typed.
    if (!from.file.empty() || from.ask) find_user(url);
    if (!from.file.empty()) return with_password(url, password_in(from.file));
    if (from.ask) {
        int terminal = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
        if (terminal < 0) throw failure(no_terminal);
        auto close = [](const int* of) { ::close(*of); };
        std::unique_ptr<int, decltype(close)> closes(&terminal, close);
        return with_password(url, ask_password(terminal));
    }
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0' || url.find("://") == std::string::npos) return url;
    user_part user = find_user(url);
    return user.has_at_sign && !user.has_password ? with_password(url, value) : url;
}

}  // namespace command

// Passwords from a file, the environment or a terminal.
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

namespace command {

namespace {

constexpr const char* variable = "CENOTE_PASSWORD";

/// Where a URL says who logs in: between `://` and the '@', if there is one.
struct login {
    std::size_t begin = 0;
    std::size_t end = 0;
    bool has_end = false;  // there is an '@' at the end
    bool has_password = false;
};

login login_in(std::string_view url) {
    constexpr std::string_view mark = "://";
    std::size_t found = url.find(mark);
    if (found == std::string_view::npos)
        throw wrong_arguments("the URL has no place for a password",
                              "A password is for URLs like postgresql://user@host/database.");
    login in{.begin = found + mark.size()};
    std::string_view authority = url.substr(in.begin);
    authority = authority.substr(0, authority.find_first_of("/?#"));
    std::size_t at = authority.rfind('@');
    in.has_end = at != std::string_view::npos;
    in.end = in.begin + (in.has_end ? at : 0);
    in.has_password = url.substr(in.begin, in.end - in.begin).find(':') != std::string_view::npos;
    return in;
}

std::string percent_encoded(std::string_view text) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string made;
    for (char c : text) {
        auto byte = static_cast<unsigned char>(c);
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (plain) made += c;
        else ((made += '%') += digits[byte >> 4U]) += digits[byte & 15U];
    }
    return made;
}

std::string first_line(std::istream& from, const std::string& name) {
    std::string line;
    if (!std::getline(from, line) && line.empty()) throw failure("there is no password in " + name);
    if (line.ends_with('\r')) line.pop_back();
    return line;
}

std::string password_in(const std::string& file) {
    if (file == "-") return first_line(std::cin, "the input");
    std::ifstream in(file);
    if (!in) throw failure("cannot read the password file '" + file + "': " + std::strerror(errno));
    return first_line(in, "'" + file + "'");
}

/// What is typed comes key by key, and is not shown. As before when it ends.
class silence {
public:
    explicit silence(int terminal) : terminal_(terminal) {
        if (::tcgetattr(terminal_, &before_) != 0)
            throw failure("there is no terminal to ask for the password");
        termios now = before_;
        now.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | ISIG);
        ::tcsetattr(terminal_, TCSAFLUSH, &now);
    }
    ~silence() { ::tcsetattr(terminal_, TCSAFLUSH, &before_); }
    silence(const silence&) = delete;
    silence& operator=(const silence&) = delete;

private:
    int terminal_;
    termios before_{};
};

void say(int terminal, std::string_view text) {
    static_cast<void>(!::write(terminal, text.data(), text.size()));
}

}  // namespace

void add_password(CLI::App& word, password_source& into) {
    CLI::Option* file = word.add_option("--password-file", into.file,
                                        "The URL's password is the first line of this file; "
                                        "-: of the input. Also taken from CENOTE_PASSWORD")
                            ->option_text("FILE");
    word.add_flag("--ask-password", into.ask, "Ask for the URL's password")->excludes(file);
}

std::string with_password(std::string_view url, std::string_view password) {
    login in = login_in(url);
    if (in.has_password)
        throw wrong_arguments("the URL has a password already, and another one was given");
    std::string made(url.substr(0, in.end));
    made += ':' + percent_encoded(password);
    if (!in.has_end) made += '@';
    return made += url.substr(in.end);
}

std::string ask_password(int terminal) {
    constexpr char interrupt = 3;
    constexpr char end = 4;
    constexpr char clear = 21;
    silence here(terminal);
    say(terminal, "Password: ");
    std::string typed;
    for (char key = 0; ::read(terminal, &key, 1) == 1;) {
        if (key == '\n' || key == '\r' || key == end) break;
        if (key == interrupt) {
            say(terminal, "\n");
            throw failure("interrupted", "", interrupted);
        }
        if (key == clear) typed.clear();
        else if (key != '\b' && key != '\x7f') typed += key;
        else if (!typed.empty()) typed.pop_back();
    }
    say(terminal, "\n");
    return typed;
}

std::string complete_url(const std::string& url, const password_source& from) {
    if (!from.file.empty()) return with_password(url, password_in(from.file));
    if (from.ask) {
        login_in(url);  // before anybody types in vain
        int terminal = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
        if (terminal < 0) throw failure("there is no terminal to ask for the password");
        auto close = [](const int* of) { ::close(*of); };
        std::unique_ptr<int, decltype(close)> closes(&terminal, close);
        return with_password(url, ask_password(terminal));
    }
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0' || url.find("://") == std::string::npos) return url;
    login in = login_in(url);
    return in.has_end && !in.has_password ? with_password(url, value) : url;
}

}  // namespace command

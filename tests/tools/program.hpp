// Runs the command as a user would, and captures its output.
#pragma once

#include <array>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <ios>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/patience.hpp"

namespace tools {

struct output {
    int code = -1;  ///< The exit status; 128 + the number of the signal that ended the program.
    std::string out;
    std::string err;
};

/// A child process whose stdout and stderr are pipes. The destructor kills it.
class program {
public:
    explicit program(std::vector<std::string> command) {
        if (::pipe2(out_.data(), O_CLOEXEC) != 0 || ::pipe2(err_.data(), O_CLOEXEC) != 0)
            throw std::runtime_error("cannot create a pipe");
        std::vector<char*> arguments;
        for (std::string& word : command) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        child_ = ::fork();
        if (child_ == 0) {
            ::dup2(out_[1], STDOUT_FILENO);
            ::dup2(err_[1], STDERR_FILENO);
            ::execv(arguments[0], arguments.data());
            ::_exit(127);
        }
        ::close(out_[1]);
        ::close(err_[1]);
    }
    program(const program&) = delete;
    program& operator=(const program&) = delete;
    ~program() {
        if (child_ > 0) {
            ::kill(child_, SIGKILL);
            ::waitpid(child_, nullptr, 0);
        }
        ::close(out_[0]);
        ::close(err_[0]);
    }

    void send(int signal) const { ::kill(child_, signal); }

    /// Reads stdout until it contains the text. False: the program ended before.
    bool prints(std::string_view text) {
        while (read_.find(text) == std::string::npos)
            if (!read(out_[0], read_)) return false;
        return true;
    }

    /// Waits until the program handles SIGINT itself and all its threads sleep.
    bool settles() const {
        int quiet = 0;
        return support::eventually([&] {
            quiet = handles(SIGINT) && sleeps() ? quiet + 1 : 0;
            return quiet == 5;
        });
    }

    /// Waits until the program handles SIGINT itself and has used this much processor time.
    bool works_for(std::chrono::milliseconds time) const {
        return support::eventually([&] { return handles(SIGINT) && processor_time() >= time; });
    }

    output wait() {
        output all;
        all.out = std::move(read_);
        bool out_open = true;
        bool err_open = true;
        while (out_open || err_open) {
            std::array<pollfd, 2> both{
                {{out_open ? out_[0] : -1, POLLIN, 0}, {err_open ? err_[0] : -1, POLLIN, 0}}};
            if (::poll(both.data(), both.size(), -1) < 0) continue;
            if (both[0].revents != 0) out_open = read(out_[0], all.out);
            if (both[1].revents != 0) err_open = read(err_[0], all.err);
        }
        int status = 0;
        while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
        }
        child_ = -1;
        all.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        return all;
    }

private:
    std::string about() const { return "/proc/" + std::to_string(child_); }

    /// Whether the program blocks the signal, as it does to read it from a signalfd.
    bool handles(int signal) const {
        std::ifstream status(about() + "/status");
        std::string word;
        std::uint64_t blocked = 0;
        while (status >> word)
            if (word == "SigBlk:") status >> std::hex >> blocked;
        return (blocked >> (signal - 1) & 1) != 0;
    }
    /// The fields of /proc/…/stat after the program's name.
    static std::ifstream after_name(const std::string& folder) {
        std::ifstream stat(folder + "/stat");
        stat.ignore(4096, ')');
        return stat;
    }
    bool sleeps() const {
        std::error_code gone;
        for (const auto& thread : std::filesystem::directory_iterator(about() + "/task", gone)) {
            char state = 0;
            if (after_name(thread.path().string()) >> state && state != 'S') return false;
        }
        return !gone;
    }
    std::chrono::milliseconds processor_time() const {
        std::ifstream stat = after_name(about());
        std::string skipped;
        for (int i = 0; i < 11; ++i) stat >> skipped;
        std::int64_t user = 0;
        std::int64_t system = 0;
        stat >> user >> system;
        return std::chrono::milliseconds((user + system) * 1000 / ::sysconf(_SC_CLK_TCK));
    }

    static bool read(int from, std::string& into) {
        std::array<char, 4096> piece{};
        ssize_t got = ::read(from, piece.data(), piece.size());
        if (got > 0) into.append(piece.data(), static_cast<std::size_t>(got));
        return got > 0 || (got < 0 && errno == EINTR);
    }

    std::array<int, 2> out_{-1, -1};
    std::array<int, 2> err_{-1, -1};
    std::string read_;
    pid_t child_ = -1;
};

/// Runs cenote with these arguments.
inline output cenote(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), CENOTE_COMMAND);
    return program(std::move(arguments)).wait();
}

/// The JSON document on stdout; null after a test failure if there is none.
inline boost::json::value parsed(const output& of) {
    boost::json::error_code error;
    boost::json::value document = boost::json::parse(of.out, error);
    EXPECT_FALSE(error) << of.out << of.err;
    return document;
}

inline std::uint64_t count(const boost::json::value& v) { return v.to_number<std::uint64_t>(); }

}  // namespace tools

// Starts programs for tests: with time limits, temporary folders and reserved ports.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "support/backend.hpp"

namespace support {

/// The path of an installed program; throws if it is missing.
std::filesystem::path program(const std::string& name);

/// The user for programs that refuse to run as root: `name` if the test runs as root, else "-" (the
/// current user).
std::string user_for(const std::string& name);

/// A new folder that the destructor removes.
class temporary_folder {
public:
    /// Below $TMPDIR or /tmp, owned by `user` (see user_for).
    temporary_folder(const std::string& kind, const std::string& user);
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
    ~temporary_folder();

    const std::filesystem::path& path() const { return path_; }
    /// Writes a file that only `user` can read.
    std::filesystem::path write(const std::string& name, std::string_view text) const;
    /// Changes the owner of all files to `user`.
    void give_to_user() const;

private:
    std::filesystem::path path_;
    std::string user_;
    pid_t owner_;
};

/// Reserves a port of 127.0.0.1. Servers that reuse addresses, as all do, can bind to it, also
/// after a restart.
class reserved_port {
public:
    reserved_port();
    std::uint16_t number() const { return number_; }

private:
    descriptor socket_;
    std::uint16_t number_ = 0;
};

/// A command under a warden, which kills it with all descendants when this object is destroyed or
/// the test ends. If the test crashes, the warden also removes the folder.
class warded_process {
public:
    /// Appends the command's output to the file `log` in the folder.
    warded_process(const temporary_folder& folder, const std::string& user,
                   const std::vector<std::string>& command, const std::string& log);
    warded_process(const warded_process&) = delete;
    warded_process& operator=(const warded_process&) = delete;
    ~warded_process();

    enum class order : char {
        terminate = 't',
        interrupt = 'i',
        quit = 'q',
        kill = 'k',
        pause = 'p',
        resume = 'c'
    };
    /// Returns when the order was executed: the signal is sent, all processes are stopped or dead.
    void tell(order what);
    bool running();
    bool ends_within(std::chrono::nanoseconds limit);
    /// The exit status of an ended command, in the shell's format.
    int status() const { return status_; }

private:
    void spawn(std::vector<std::string> words, const std::filesystem::path& log,
               const descriptor& orders, const descriptor& answers);

    descriptor orders_;
    descriptor answers_;
    pid_t warden_ = 0;
    pid_t owner_ = 0;
    int status_ = 0;
    bool ended_ = false;
};

/// Runs a command to its end and returns its output; throws if it fails or takes too long.
std::string run(const std::string& user, const std::vector<std::string>& command,
                const temporary_folder& folder, std::chrono::nanoseconds limit);

std::string content_of(const std::filesystem::path& file);

}  // namespace support

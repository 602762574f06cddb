// Programs that tests start: bounded in time, gone with the test, and with a place of their own.
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

/// Where `name` is installed; throws if it is not.
std::filesystem::path program(const std::string& name);

/// Who runs a program that wants no rights: `name`, if the test is root's; else "-", who runs it.
std::string user_for(const std::string& name);

/// A new folder that goes when this does.
class temporary_folder {
public:
    /// Below $TMPDIR or /tmp, and owned by `user` (see user_for).
    temporary_folder(const std::string& kind, const std::string& user);
    temporary_folder(const temporary_folder&) = delete;
    temporary_folder& operator=(const temporary_folder&) = delete;
    ~temporary_folder();

    const std::filesystem::path& path() const { return path_; }
    /// Writes a file that `user` owns and nobody else reads.
    std::filesystem::path write(const std::string& name, std::string_view text) const;
    /// Everything in it becomes the user's.
    void hand_over() const;

private:
    std::filesystem::path path_;
    std::string user_;
    pid_t owner_;
};

/// A port of 127.0.0.1 that is nobody else's for as long as this lives: a server that reuses
/// addresses, as all do, may bind to it, and again after a restart.
class reserved_port {
public:
    reserved_port();
    std::uint16_t number() const { return number_; }

private:
    descriptor socket_;
    std::uint16_t number_ = 0;
};

/// A command under a warden: its descendants, too, are gone when this is, or when the test is.
/// If the test crashes, so is the folder.
class warded_process {
public:
    /// What it says is appended to `log`, a file of the folder.
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
    /// Returns when it is carried out: signals are sent, all are stopped, all are dead.
    void tell(order what);
    bool running();
    /// Whether it ends in time.
    bool ends_within(std::chrono::nanoseconds limit);
    /// As a shell says it; of one that has ended.
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

/// Runs a command to its end and returns what it said; throws if it fails or takes too long.
std::string run(const std::string& user, const std::vector<std::string>& command,
                const temporary_folder& folder, std::chrono::nanoseconds limit);

std::string content_of(const std::filesystem::path& file);

}  // namespace support

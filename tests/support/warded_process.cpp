// Starts programs for tests under a warden, and ends them.
#include "support/warded_process.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <netinet/in.h>
#include <poll.h>
#include <pwd.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "support/patience.hpp"

namespace support {

namespace fs = std::filesystem;

namespace {

/// Newest first.
std::vector<fs::path> postgres_folders() {
    std::vector<fs::path> found;
    std::error_code absent;
    for (const auto& version : fs::directory_iterator("/usr/lib/postgresql", absent))
        found.push_back(version.path() / "bin");
    std::ranges::sort(found, std::ranges::greater{}, [](const fs::path& bin) {
        return std::atoi(bin.parent_path().filename().c_str());
    });
    return found;
}

std::vector<fs::path> program_folders() {
    std::vector<fs::path> found = postgres_folders();
    // Debian installs servers in folders that are only in root's PATH.
    for (const char* usual : {"/usr/sbin", "/usr/bin", "/usr/local/sbin", "/usr/local/bin"})
        found.emplace_back(usual);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no test changes this variable.
    const char* path = std::getenv("PATH");
    std::istringstream rest(path != nullptr ? path : "");
    for (std::string folder; std::getline(rest, folder, ':');) found.emplace_back(folder);
    return found;
}

/// Like `checked`, for functions that return the error.
void succeeds(int error, const char* what) {
    if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

struct channel {
    descriptor read;
    descriptor write;
};
channel make_channel() {
    int ends[2] = {};
    checked(::pipe2(ends, O_CLOEXEC), "pipe");
    return {descriptor(ends[0]), descriptor(ends[1])};
}

void give_to(const std::string& user, const fs::path& file) {
    if (user == "-") return;
    passwd entry{};
    passwd* found = nullptr;
    std::vector<char> room(16384);
    succeeds(::getpwnam_r(user.c_str(), &entry, room.data(), room.size(), &found), "getpwnam");
    if (found == nullptr) throw std::runtime_error("there is no user " + user);
    checked(::lchown(file.c_str(), entry.pw_uid, entry.pw_gid), "chown");
}

}  // namespace

fs::path program(const std::string& name) {
    for (const fs::path& folder : program_folders())
        if (::access((folder / name).c_str(), X_OK) == 0) return folder / name;
    throw std::runtime_error(name + " is not installed: `scripts/setup test` does that");
}

std::string user_for(const std::string& name) { return ::geteuid() == 0 ? name : "-"; }

temporary_folder::temporary_folder(const std::string& kind, const std::string& user)
    : user_(user), owner_(::getpid()) {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no test changes this variable.
    const char* base = std::getenv("TMPDIR");
    std::string pattern = (base != nullptr && *base != '\0' ? base : std::string("/tmp")) +
                          "/cenote-" + kind + "-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr)
        throw std::system_error(errno, std::generic_category(), pattern);
    path_ = pattern;
    give_to(user_, path_);
}

temporary_folder::~temporary_folder() {
    // A forked child has a copy of this object, but must not remove its parent's folder.
    if (::getpid() != owner_) return;
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

fs::path temporary_folder::write(const std::string& name, std::string_view text) const {
    fs::path file = path_ / name;
    {
        std::ofstream out(file);
        out << text;
        if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
    }
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    give_to(user_, file);
    return file;
}

void temporary_folder::give_to_user() const {
    for (const auto& entry : fs::recursive_directory_iterator(path_)) give_to(user_, entry.path());
}

reserved_port::reserved_port()
    : socket_(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")) {
    sockaddr_in address = loopback(0);
    checked(::bind(socket_.get(), plain(address), sizeof address), "bind");
    number_ = port_of(socket_);
    // After bind: the port must have been free before it is shared.
    int yes = 1;
    checked(::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), "setsockopt");
}

warded_process::warded_process(const temporary_folder& folder, const std::string& user,
                               const std::vector<std::string>& command, const std::string& log)
    : owner_(::getpid()) {
    std::vector<std::string> words = {CENOTE_TEST_WARDEN, folder.path(), user};
    words.insert(words.end(), command.begin(), command.end());
    channel orders = make_channel();
    channel answers = make_channel();
    spawn(std::move(words), folder.path() / log, orders.read, answers.write);
    orders_ = std::move(orders.write);
    answers_ = std::move(answers.read);
}

void warded_process::spawn(std::vector<std::string> words, const fs::path& log,
                           const descriptor& orders, const descriptor& answers) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);

    constexpr int appending = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    descriptor said(checked(::open(log.c_str(), appending, 0600), "log"));
    posix_spawn_file_actions_t actions;
    succeeds(::posix_spawn_file_actions_init(&actions), "posix_spawn");
    ::posix_spawn_file_actions_adddup2(&actions, orders.get(), 0);
    ::posix_spawn_file_actions_adddup2(&actions, answers.get(), 1);
    ::posix_spawn_file_actions_adddup2(&actions, said.get(), 2);
    int error =
        ::posix_spawn(&warden_, words[0].c_str(), &actions, nullptr, pointers.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    succeeds(error, words[0].c_str());
}

warded_process::~warded_process() {
    // A forked child has a copy of this object, but must not end its parent's process.
    if (::getpid() != owner_ || !running()) return;
    try {
        tell(order::kill);
    } catch (const std::exception&) {
        // Closing the pipe also makes the warden end everything.
        orders_ = descriptor();
    }
    if (!ends_within(plenty)) ::kill(warden_, SIGKILL);
}

void warded_process::tell(order what) {
    if (!running()) throw std::runtime_error("the process has ended");
    char byte = static_cast<char>(what);
    // If the warden has just ended, SIGPIPE must not end the test.
    sigset_t pipe;
    sigset_t before;
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &pipe, &before);
    ssize_t written = ::write(orders_.get(), &byte, 1);
    timespec at_once{};
    if (written < 0) ::sigtimedwait(&pipe, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pollfd answered{.fd = answers_.get(), .events = POLLIN, .revents = 0};
    // Short calls in a loop: with a stopped clock (clock.hpp) poll returns early.
    auto has_answered = [&] { return ::poll(&answered, 1, 10) > 0; };
    if (written == 1 && !eventually(has_answered, 2 * plenty))
        throw std::runtime_error("the warden does not answer");
    char answer = 0;
    // An end of file means that the warden has ended; the next call of running() reports it.
    if (written == 1 && ::read(answers_.get(), &answer, 1) < 0) checked(-1, "the warden");
}

bool warded_process::running() {
    if (ended_) return false;
    int status = 0;
    pid_t ended = ::waitpid(warden_, &status, WNOHANG);
    if (ended == 0) return true;
    ended_ = true;
    status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return false;
}

bool warded_process::ends_within(std::chrono::nanoseconds limit) {
    return eventually([this] { return !running(); }, limit);
}

std::string content_of(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::string run(const std::string& user, const std::vector<std::string>& command,
                const temporary_folder& folder, std::chrono::nanoseconds limit) {
    static std::atomic<int> count{0};
    std::string output = "output-" + std::to_string(++count);
    warded_process process(folder, user, command, output);
    bool in_time = process.ends_within(limit);
    std::string text = content_of(folder.path() / output);
    fs::remove(folder.path() / output);
    if (!in_time) throw std::runtime_error(command[0] + " takes too long; its output:\n" + text);
    if (process.status() != 0)
        throw std::runtime_error(command[0] + " failed (" + std::to_string(process.status()) +
                                 "); its output:\n" + text);
    return text;
}

}  // namespace support

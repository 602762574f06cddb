// Talks to programs that measure themselves.
#include "guest.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <spawn.h>
#include <stdexcept>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include "command.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX has no header for it

namespace cenote::bench {

namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// A virtual machine starts and warms up meanwhile.
constexpr auto longest_answer = 60s;

/// What is known by name, and what its program is called.
struct known {
    const char* name;
    const char* program;
};
constexpr std::array all_known{known{hikaricp, "hikaricp"},
                               known{commons_pool2, "commons-pool2"},
                               known{puddle, "puddle"},
                               known{go_channel, "go-channel"},
                               known{pgxpool, "pgxpool"},
                               known{r2d2, "r2d2"},
                               known{psycopg_pool, "psycopg_pool"}};

}  // namespace

class guest {
public:
    explicit guest(std::string program) : program_(std::move(program)) {}
    ~guest() { stop(); }
    guest(const guest&) = delete;
    guest& operator=(const guest&) = delete;

    /// Never throws: what goes wrong is in the answer.
    measured run(const std::string& command) {
        try {
            if (process_ < 0) start();
            return ask(command);
        } catch (const std::exception& e) {
            stop();
            return {.metrics = {}, .cores = 0, .declined = {}, .failed = e.what()};
        }
    }

private:
    void start() {
        std::array<int, 2> in{};
        std::array<int, 2> out{};
        if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0)
            throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
        ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
        std::array<char*, 2> words{program_.data(), nullptr};
        int error =
            ::posix_spawn(&process_, program_.c_str(), &actions, nullptr, words.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
        ::close(in[0]);
        ::close(out[1]);
        to_ = in[1];
        from_ = out[0];
        if (error != 0) {
            process_ = -1;
            ::close(to_);
            ::close(from_);
            throw std::runtime_error("cannot be started: " + std::string(std::strerror(error)));
        }
        if (!next_line(clock::now() + longest_answer).starts_with("ready "))
            throw std::runtime_error("does not say that it is ready");
    }

    measured ask(const std::string& command) {
        say(command + "\n");
        clock::time_point until = clock::now() + longest_answer;
        measured m;
        for (;;) {
            std::string_view line = next_line(until);
            if (line == "done") return m;
            add_line(m, line);
        }
    }

    void say(std::string_view text) const {
        while (!text.empty()) {
            ssize_t sent = ::write(to_, text.data(), text.size());
            if (sent < 0 && errno == EINTR) continue;
            if (sent < 0) throw std::runtime_error("has hung up");
            text.remove_prefix(static_cast<std::size_t>(sent));
        }
    }

    /// Valid until the next one.
    std::string_view next_line(clock::time_point until) {
        heard_.erase(0, line_end_);
        std::size_t end = 0;
        while ((end = heard_.find('\n')) == heard_.npos) hear(until);
        line_end_ = end + 1;
        return std::string_view(heard_).substr(0, end);
    }

    void hear(clock::time_point until) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
        pollfd waited{.fd = from_, .events = POLLIN, .revents = 0};
        int ready = left.count() <= 0 ? 0 : ::poll(&waited, 1, static_cast<int>(left.count()));
        if (ready == 0) throw std::runtime_error("has not answered for a minute");
        std::array<char, 4096> some{};
        ssize_t got = ::read(from_, some.data(), some.size());
        if (got < 0 && errno == EINTR) return;
        if (got <= 0) throw std::runtime_error("has ended");
        heard_.append(some.data(), static_cast<std::size_t>(got));
    }

    /// The end of its input is the end; who does not see that is killed.
    void stop() noexcept {
        if (process_ < 0) return;
        ::close(to_);
        ::close(from_);
        clock::time_point until = clock::now() + 2s;
        while (::waitpid(process_, nullptr, WNOHANG) == 0) {
            if (clock::now() > until) ::kill(process_, SIGKILL);
            ::usleep(1000);
        }
        process_ = -1;
        heard_.clear();
        line_end_ = 0;
    }

    std::string program_;
    pid_t process_ = -1;
    int to_ = -1;
    int from_ = -1;
    std::string heard_;
    std::size_t line_end_ = 0;  // of the one that was given out last
};

guests::guests(const std::string& folder) {
    std::signal(SIGPIPE, SIG_IGN);  // a guest may end while it is spoken to
    for (const known& each : all_known) {
        std::filesystem::path program = std::filesystem::path(folder) / each.program;
        if (!folder.empty() && std::filesystem::exists(program))
            all_.push_back({each.name, std::make_shared<guest>(program.string())});
        else std::printf("skipped: %s is not there (make bench-peers)\n", each.name);
    }
}

void guests::join(workload& w, const std::vector<std::string>& names, const std::string& command,
                  double cores_needed) const {
    for (const std::string& name : names)
        for (const entry& each : all_) {
            if (each.name != name) continue;
            auto run = [who = each.who, command](double seconds) {
                return who->run(command + " seconds=" + std::to_string(seconds));
            };
            w.subjects.push_back({name, run, cores_needed});
        }
}

}  // namespace cenote::bench

// Starts peer processes, sends commands and parses the replies.
#include "peer_process.hpp"

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

/// Includes the start and the warm-up of a virtual machine.
constexpr auto reply_timeout = 60s;

struct peer {
    const char* name;
    const char* program;
};
constexpr std::array all_peers{peer{hikaricp, "hikaricp"},
                               peer{commons_pool2, "commons-pool2"},
                               peer{puddle, "puddle"},
                               peer{go_channel, "go-channel"},
                               peer{pgxpool, "pgxpool"},
                               peer{r2d2, "r2d2"},
                               peer{psycopg_pool, "psycopg_pool"}};

}  // namespace

class peer_process {
public:
    explicit peer_process(std::string program) : program_(std::move(program)) {}
    ~peer_process() { stop(); }
    peer_process(const peer_process&) = delete;
    peer_process& operator=(const peer_process&) = delete;

    /// Never throws: an error is in the result.
    measured run(const std::string& command) {
        try {
            if (process_ < 0) start();
            return execute(command);
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
            throw std::runtime_error(std::string("cannot create a pipe: ") + std::strerror(errno));
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
        if (!next_line(clock::now() + reply_timeout).starts_with("ready "))
            throw std::runtime_error("did not send 'ready'");
    }

    measured execute(const std::string& command) {
        send(command + "\n");
        clock::time_point until = clock::now() + reply_timeout;
        measured m;
        for (;;) {
            std::string_view line = next_line(until);
            if (line == "done") return m;
            add_line(m, line);
        }
    }

    void send(std::string_view text) const {
        while (!text.empty()) {
            ssize_t sent = ::write(to_, text.data(), text.size());
            if (sent < 0 && errno == EINTR) continue;
            if (sent < 0) throw std::runtime_error("has closed its input");
            text.remove_prefix(static_cast<std::size_t>(sent));
        }
    }

    /// Valid until the next call.
    std::string_view next_line(clock::time_point until) {
        received_.erase(0, line_end_);
        std::size_t end = 0;
        while ((end = received_.find('\n')) == received_.npos) receive(until);
        line_end_ = end + 1;
        return std::string_view(received_).substr(0, end);
    }

    void receive(clock::time_point until) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now());
        pollfd waited{.fd = from_, .events = POLLIN, .revents = 0};
        int ready = left.count() <= 0 ? 0 : ::poll(&waited, 1, static_cast<int>(left.count()));
        if (ready == 0) throw std::runtime_error("did not reply within a minute");
        std::array<char, 4096> some{};
        ssize_t got = ::read(from_, some.data(), some.size());
        if (got < 0 && errno == EINTR) return;
        if (got <= 0) throw std::runtime_error("has ended");
        received_.append(some.data(), static_cast<std::size_t>(got));
    }

    /// A peer ends at the end of its input; otherwise kill it.
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
        received_.clear();
        line_end_ = 0;
    }

    std::string program_;
    pid_t process_ = -1;
    int to_ = -1;
    int from_ = -1;
    std::string received_;
    std::size_t line_end_ = 0;  // of the last line returned by next_line()
};

peer_processes::peer_processes(const std::string& folder) {
    std::signal(SIGPIPE, SIG_IGN);  // a peer may end while a command is sent
    for (const peer& each : all_peers) {
        std::filesystem::path program = std::filesystem::path(folder) / each.program;
        if (!folder.empty() && std::filesystem::exists(program))
            all_.push_back({each.name, std::make_shared<peer_process>(program.string())});
        else std::printf("skipped: %s is not installed (make bench-peers)\n", each.name);
    }
}

void peer_processes::add_subjects(workload& w, const std::vector<std::string>& names,
                                  const std::string& command, double cores_needed) const {
    for (const std::string& name : names)
        for (const entry& each : all_) {
            if (each.name != name) continue;
            auto run = [process = each.process, command](double seconds) {
                return process->run(command + " seconds=" + std::to_string(seconds));
            };
            w.subjects.push_back({name, run, cores_needed});
        }
}

}  // namespace cenote::bench

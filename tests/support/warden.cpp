// Runs one server for a test and kills all its processes when the test ends or crashes. It is a
// separate program, because a crashed test cannot clean up, and a parent-death signal reaches
// neither grandchildren nor stopped processes.
//
//   warden FOLDER USER COMMAND…    runs COMMAND as USER ("-": the current user)
//
// Orders are bytes on its standard input; it replies with a byte after executing each. At the end
// of the input it kills everything and removes FOLDER. Its exit status is that of COMMAND.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <grp.h>
#include <iterator>
#include <poll.h>
#include <pwd.h>
#include <string>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace {

[[noreturn]] void give_up(const char* what) {
    std::perror(what);
    std::_Exit(126);
}

/// The children of all threads of a process.
std::vector<pid_t> children_of(pid_t process) {
    std::vector<pid_t> found;
    std::error_code gone;
    std::filesystem::directory_iterator tasks("/proc/" + std::to_string(process) + "/task", gone);
    for (; !gone && tasks != std::filesystem::directory_iterator(); tasks.increment(gone)) {
        std::ifstream list(tasks->path() / "children");
        found.insert(found.end(), std::istream_iterator<pid_t>(list), {});
    }
    return found;
}

/// All descendants of this process; parents before their children.
std::vector<pid_t> wards() {
    std::vector<pid_t> all = children_of(::getpid());
    for (std::size_t i = 0; i < all.size(); ++i) {
        std::vector<pid_t> more = children_of(all[i]);
        all.insert(all.end(), more.begin(), more.end());
    }
    return all;
}

/// Whether a process is stopped or dead.
bool is_still(pid_t process) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text{std::istreambuf_iterator<char>(file), {}};
    // The program's name before it may contain any character.
    std::size_t state = text.rfind(')');
    return state == std::string::npos || std::strchr("TtZX", text[state + 2]) != nullptr;
}

void pause_all() {
    // A process may fork before it is stopped: repeat until all are stopped.
    for (bool still = false; !still;) {
        still = true;
        for (pid_t ward : wards())
            if (!is_still(ward)) {
                still = false;
                ::kill(ward, SIGSTOP);
            }
        if (!still) ::usleep(500);
    }
}

void resume_all() {
    // Parents last: a running parent might treat a stopped child as dead.
    std::vector<pid_t> all = wards();
    for (auto ward = all.rbegin(); ward != all.rend(); ++ward) ::kill(*ward, SIGCONT);
}

void end_all() {
    for (;;) {
        while (::waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        std::vector<pid_t> all = wards();
        if (all.empty()) return;
        for (pid_t ward : all) ::kill(ward, SIGKILL);
        ::usleep(500);
    }
}

void become(const char* user) {
    if (std::strcmp(user, "-") == 0) return;
    const passwd* entry = ::getpwnam(user);
    if (entry == nullptr) give_up(user);
    if (::initgroups(user, entry->pw_gid) != 0 || ::setgid(entry->pw_gid) != 0 ||
        ::setuid(entry->pw_uid) != 0)
        give_up("becoming another user");
}

[[noreturn]] void run(const char* user, char** command) {
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    become(user);
    // After the change of user, which would undo it.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || ::dup2(nothing, 0) < 0 || ::dup2(2, 1) < 0) give_up("/dev/null");
    // A minimal environment: variables for other servers must not affect this one.
    char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char locale[] = "LC_ALL=C";
    char zone[] = "TZ=UTC";
    char* environment[] = {path, locale, zone, nullptr};
    ::execve(command[0], command, environment);
    give_up(command[0]);
}

enum class outcome { goes_on, told_to_end, deserted };

outcome obey(pid_t server) {
    char order = 0;
    ssize_t got = ::read(0, &order, 1);
    if (got < 0 && errno == EINTR) return outcome::goes_on;
    if (got <= 0) return outcome::deserted;
    switch (order) {
        case 't': ::kill(server, SIGTERM); break;
        case 'i': ::kill(server, SIGINT); break;
        case 'q': ::kill(server, SIGQUIT); break;
        case 'k': end_all(); break;
        case 'p': pause_all(); break;
        case 'c': resume_all(); break;
        default: break;
    }
    if (::write(1, "y", 1) != 1) return outcome::deserted;
    return order == 'k' ? outcome::told_to_end : outcome::goes_on;
}

/// Waits for dead children. Returns the server's status, or -1 while it runs.
int reap(int signals, pid_t server) {
    signalfd_siginfo news;
    if (::read(signals, &news, sizeof news) < 0) return -1;
    int ended = -1;
    int status = 0;
    for (pid_t ward; (ward = ::waitpid(-1, &status, WNOHANG)) > 0;)
        if (ward == server)
            ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ended;
}

/// The status to end with.
int watch(int signals, pid_t server, const char* folder) {
    for (;;) {
        pollfd both[] = {{.fd = 0, .events = POLLIN, .revents = 0},
                         {.fd = signals, .events = POLLIN, .revents = 0}};
        if (::poll(both, 2, -1) < 0) continue;
        if (both[1].revents != 0) {
            int ended = reap(signals, server);
            if (ended >= 0) return ended;
        }
        outcome heard = both[0].revents != 0 ? obey(server) : outcome::goes_on;
        if (heard == outcome::goes_on) continue;
        end_all();
        std::error_code ignored;
        if (heard == outcome::deserted) std::filesystem::remove_all(folder, ignored);
        return 128 + SIGKILL;
    }
}

}  // namespace

int main(int count, char** words) {
    if (count < 4) return 2;
    // The server must not inherit the test's descriptors.
    ::close_range(3, ~0U, 0);
    for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
    ::signal(SIGPIPE, SIG_IGN);
    // Ctrl-C in the terminal ends the test, and thereby the input.
    ::setsid();
    // Orphaned processes of the server become children of this process.
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t deaths;
    ::sigemptyset(&deaths);
    ::sigaddset(&deaths, SIGCHLD);
    ::sigprocmask(SIG_SETMASK, &deaths, nullptr);
    int signals = ::signalfd(-1, &deaths, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) give_up("signalfd");
    pid_t server = ::fork();
    if (server < 0) give_up("fork");
    if (server == 0) {
        ::signal(SIGPIPE, SIG_DFL);
        run(words[2], words + 3);
    }
    int status = watch(signals, server, words[1]);
    end_all();
    return status;
}

// How a form of co_await is put to the test: alone in a process, with every object traced.
#pragma once

#include <algorithm>
#include <coroutine>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace canary {

/// The objects that are alive, by address. What a miscompiled expression does to them is noted
/// rather than suffered: they own nothing, so destroying one twice frees nothing twice.
class books {
public:
    static books& open() {
        static books it;
        return it;
    }

    void born(const void* at) { living_.push_back(at); }
    void died(const void* at) {
        auto found = std::find(living_.begin(), living_.end(), at);
        if (found == living_.end()) balanced_ = false;
        else living_.erase(found);
    }
    void touched(const void* at) {
        if (std::find(living_.begin(), living_.end(), at) == living_.end()) balanced_ = false;
    }
    bool balanced() const { return balanced_ && living_.empty(); }

private:
    std::vector<const void*> living_;
    bool balanced_ = true;
};

/// An object as a lease or a string is one: it has to be destroyed, exactly once.
class traced {
public:
    traced() { books::open().born(this); }
    explicit traced(int value) : value_(value) { books::open().born(this); }
    traced(const traced& from) : value_(from.value()) { books::open().born(this); }
    traced(traced&& from) noexcept : value_(from.value()) { books::open().born(this); }
    traced& operator=(const traced&) = default;
    traced& operator=(traced&&) = default;
    ~traced() { books::open().died(this); }

    int value() const {
        books::open().touched(this);
        return value_;
    }

private:
    int value_ = 0;
};

/// A coroutine that starts at once; its owner resumes it until it is done.
class job {
public:
    struct promise_type {
        job get_return_object() {
            return job(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };

    job(const job&) = delete;
    job& operator=(const job&) = delete;
    ~job() { handle_.destroy(); }

    void finish() {
        while (!handle_.done()) handle_.resume();
    }

private:
    explicit job(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

    std::coroutine_handle<promise_type> handle_;
};

enum class verdict { right, wrong };

struct finding {
    verdict is;
    std::string how;  // for the message if it is not as expected
};

/// Runs `probe` in a process of its own; it says whether all was well, if it lives to say so.
template <class Probe>
finding in_a_child(Probe probe) {
    constexpr int told = 3;  // the sanitizers end with 1 and 66
    pid_t child = fork();
    if (child == 0) {
        rlimit none{};
        setrlimit(RLIMIT_CORE, &none);
        rlimit seconds{.rlim_cur = 60, .rlim_max = 60};
        setrlimit(RLIMIT_CPU, &seconds);
        // A sanitizer that reports a stack overflow from within itself waits for itself.
        for (int fatal : {SIGSEGV, SIGBUS}) std::signal(fatal, SIG_DFL);
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        _exit(probe() ? 0 : told);
    }
    int status = 0;
    if (child == -1 || waitpid(child, &status, 0) != child) std::abort();
    if (WIFSIGNALED(status))
        return {verdict::wrong, std::string("ended by a signal: ") + strsignal(WTERMSIG(status))};
    switch (WEXITSTATUS(status)) {
        case 0: return {verdict::right, "all is well"};
        case told: return {verdict::wrong, "the count is wrong"};
        default: return {verdict::wrong, "ended by a sanitizer, or refused by the compiler"};
    }
}

/// What the tables know to be wrong is wrong with g++ 12; all other compilers are taken to be right
/// until a test says that they are not.
#if defined(__GNUC__) && !defined(__clang__)
inline constexpr bool is_gcc_12 = __GNUC__ == 12;
inline constexpr const char* compiler = "g++ " __VERSION__;
#else
inline constexpr bool is_gcc_12 = false;
inline constexpr const char* compiler = __VERSION__;
#endif

/// Nothing if the table knew; else what has to be changed in it.
inline std::string surprise(const std::string& form, verdict expected, const finding& found) {
    if (found.is == expected) return {};
    return "the table must change: `" + form + "` is now " +
           (found.is == verdict::right ? "right" : "wrong") + " with " + compiler + " (" +
           found.how + ")";
}

}  // namespace canary

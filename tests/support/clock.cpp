// Replacements for system functions that read a clock or wait with a timeout.
//
// While the clock is stopped, each wait is cut into slices, after which the caller checks the clock
// as after any spurious wake-up. advance() also wakes threads that sleep on a condition variable or
// a futex; their slices only end the rare wait that had not begun when advance() looked. Futex
// slices double, because hundreds of threads may sleep on futexes. While the clock runs, no wait is
// cut: a slice would hide a lost wake-up.
#include "support/clock.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <linux/futex.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t slice = 20'000'000;
constexpr std::int64_t longest_slice = 320'000'000;
constexpr int poll_slice_milliseconds = 1;

std::atomic<std::int64_t> stopped_at{-1};  // what the clock shows; -1: it runs
std::atomic<std::int64_t> ahead{0};        // of the machine's, when it runs
std::atomic<std::int64_t> suspended{0};
constinit thread_local std::uint64_t reads_here = 0;

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern "C" {
int __real_clock_gettime(clockid_t which, timespec* at);
int __real_pthread_cond_clockwait(pthread_cond_t* of, pthread_mutex_t* with, clockid_t which,
                                  const timespec* until);
long __real_syscall(long number, ...);
int __real_poll(pollfd* on, nfds_t count, int timeout);
int __real_ppoll(pollfd* on, nfds_t count, const timespec* timeout, const sigset_t* mask);
int __real_epoll_wait(int on, epoll_event* events, int count, int timeout);
int __real_timerfd_create(int which, int flags);
}

namespace {

std::int64_t count(const timespec& t) { return t.tv_sec * second + t.tv_nsec; }
timespec time_of(std::int64_t n) { return {.tv_sec = n / second, .tv_nsec = n % second}; }

std::int64_t machine_now() {
    timespec at{};
    __real_clock_gettime(CLOCK_MONOTONIC, &at);
    return count(at);
}

std::int64_t steady_now() {
    std::int64_t stopped = stopped_at.load();
    return stopped >= 0 ? stopped : machine_now() + ahead.load();
}

bool is_stopped() { return stopped_at.load() >= 0; }

/// The machine time at which a wait until this steady time ends, or its next slice.
timespec end_of_wait(std::int64_t until, std::int64_t next_slice = slice) {
    if (is_stopped()) return time_of(machine_now() + next_slice);
    return time_of(std::max<std::int64_t>(0, until - ahead.load()));
}

/// The objects that threads sleep on, and how to wake them.
class sleepers {
public:
    void add(const void* on, void (*wake)(const void*)) {
        std::lock_guard lock(mutex_);
        all_.emplace(on, wake);
    }
    void remove(const void* on) {
        std::lock_guard lock(mutex_);
        all_.erase(all_.find(on));
    }
    void wake_all() {
        std::lock_guard lock(mutex_);
        for (auto [on, wake] : all_) wake(on);
    }

private:
    std::mutex mutex_;
    std::multimap<const void*, void (*)(const void*)> all_;
};

sleepers& all_sleepers() {
    static auto* all = new sleepers;  // threads may outlive main
    return *all;
}

/// Registers a sleeping thread for advance() while the clock is stopped. Does nothing while the
/// clock runs: a shared mutex in every wait would hide data races from ThreadSanitizer.
class waking {
public:
    waking(const void* on, void (*wake)(const void*)) : on_(is_stopped() ? on : nullptr) {
        if (on_ != nullptr) all_sleepers().add(on_, wake);
    }
    ~waking() {
        int error = errno;  // of the wait
        if (on_ != nullptr) all_sleepers().remove(on_);
        errno = error;
    }
    waking(const waking&) = delete;
    waking& operator=(const waking&) = delete;

private:
    const void* on_;
};

void wake_condition(const void* on) {
    pthread_cond_broadcast(static_cast<pthread_cond_t*>(const_cast<void*>(on)));
}
void wake_futex(const void* on) {
    __real_syscall(SYS_futex, on, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, nullptr, nullptr, 0);
}

int shorter(int timeout) {
    if (!is_stopped()) return timeout;
    return timeout < 0 ? poll_slice_milliseconds : std::min(timeout, poll_slice_milliseconds);
}

}  // namespace

namespace {

/// A futex call with FUTEX_WAIT_BITSET. The slices can be repeated here, because the kernel checks
/// the futex word each time.
long wait_on_futex(const long (&a)[6], std::int64_t until) {
    const auto* word = reinterpret_cast<const void*>(a[0]);
    waking entry(word, wake_futex);
    for (std::int64_t next = slice;; next = std::min(next * 2, longest_slice)) {
        timespec end = end_of_wait(until, next);
        long result = __real_syscall(SYS_futex, word, a[1], a[2], &end, a[4], a[5]);
        bool ended_early = result == -1 && errno == ETIMEDOUT && is_stopped();
        if (!ended_early || steady_now() >= until) return result;
    }
}

}  // namespace

extern "C" {

std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv();
std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
    ++reads_here;
    return steady_now();
}

/// cenote::shell::read_clock(), which reads the processor's counter.
std::int64_t __wrap__ZN6cenote5shell10read_clockEv();
std::int64_t __wrap__ZN6cenote5shell10read_clockEv() {
    ++reads_here;
    return steady_now();
}

int __wrap_clock_gettime(clockid_t which, timespec* at);
int __wrap_clock_gettime(clockid_t which, timespec* at) {
    if (which != CLOCK_BOOTTIME) return __real_clock_gettime(which, at);
    *at = time_of(steady_now() + suspended.load());
    return 0;
}

int __wrap_pthread_cond_clockwait(pthread_cond_t* of, pthread_mutex_t* with, clockid_t which,
                                  const timespec* until);
int __wrap_pthread_cond_clockwait(pthread_cond_t* of, pthread_mutex_t* with, clockid_t which,
                                  const timespec* until) {
    if (which != CLOCK_MONOTONIC) return __real_pthread_cond_clockwait(of, with, which, until);
    timespec end = end_of_wait(count(*until));
    waking entry(of, wake_condition);
    int result = __real_pthread_cond_clockwait(of, with, which, &end);
    return result == ETIMEDOUT && steady_now() < count(*until) ? 0 : result;
}

/// The library sleeps on futexes with an absolute timeout. Reads only the arguments that the caller
/// passed: further ones would come from the caller's stack.
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
    va_list rest;
    va_start(rest, number);
    long a[6]{};
    std::for_each_n(a, 3, [&](long& each) { each = va_arg(rest, long); });
    int command = number == SYS_futex ? static_cast<int>(a[1]) & FUTEX_CMD_MASK : FUTEX_WAKE;
    if (command == FUTEX_WAIT) a[3] = va_arg(rest, long);
    if (command == FUTEX_WAIT_BITSET)
        std::for_each_n(a + 3, 3, [&](long& each) { each = va_arg(rest, long); });
    va_end(rest);
    const auto* until = reinterpret_cast<const timespec*>(a[3]);
    if (command != FUTEX_WAIT_BITSET || until == nullptr)
        return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    return wait_on_futex(a, count(*until));
}

int __wrap_poll(pollfd* on, nfds_t count, int timeout);
int __wrap_poll(pollfd* on, nfds_t count, int timeout) {
    return __real_poll(on, count, shorter(timeout));
}

int __wrap_ppoll(pollfd* on, nfds_t count, const timespec* timeout, const sigset_t* mask);
int __wrap_ppoll(pollfd* on, nfds_t count, const timespec* timeout, const sigset_t* mask) {
    constexpr timespec longest{.tv_sec = 0, .tv_nsec = poll_slice_milliseconds * 1'000'000};
    bool cut = is_stopped() && (timeout == nullptr || ::count(*timeout) > ::count(longest));
    return __real_ppoll(on, count, cut ? &longest : timeout, mask);
}

int __wrap_epoll_wait(int on, epoll_event* events, int count, int timeout);
int __wrap_epoll_wait(int on, epoll_event* events, int count, int timeout) {
    return __real_epoll_wait(on, events, count, shorter(timeout));
}

/// Without a timerfd, Asio passes its timeouts to epoll_wait.
int __wrap_timerfd_create(int which, int flags);
int __wrap_timerfd_create(int which, int flags) {
    if (!is_stopped()) return __real_timerfd_create(which, flags);
    errno = ENOSYS;
    return -1;
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier)

namespace support {

stopped_clock::stopped_clock() {
    if (is_stopped()) std::abort();  // only one at a time
    stopped_at = steady_now();
}

stopped_clock::~stopped_clock() {
    ahead = stopped_at.load() - machine_now();
    stopped_at = -1;
}

void stopped_clock::advance(nanoseconds by) {
    stopped_at += by.count();
    all_sleepers().wake_all();
}

std::uint64_t clock_reads() { return reads_here; }

void suspend_system(nanoseconds time) { suspended += time.count(); }

}  // namespace support

// Which ways of passing control between coroutines use a constant stack. A compiler that does not
// make symmetric transfer a tail call overflows the stack sooner or later: g++ 12 unless it
// optimizes well, and never under the address and thread sanitizers. cenote must not rely on it;
// what it relies on instead is here too, and must be right everywhere.
#include <coroutine>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <utility>

#include <gtest/gtest.h>

#include "coroutine/canary.hpp"

namespace canary {
namespace {

constexpr int hops = 1'000'000;

/// Far less than a million of the smallest frames need.
constexpr std::size_t stack_size = 1 << 20;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;  // told by g++ only, and it matters there only
#else
constexpr bool sanitized = false;
#endif

/// As the build was configured, since the preprocessor knows only whether it is more than -O0.
constexpr std::string_view optimization = CENOTE_CANARY_OPTIMIZATION;
constexpr bool gcc_makes_tail_calls =
    !sanitized && (optimization == "-O2" || optimization == "-O3" || optimization == "-Os");

/// A coroutine that waits to be resumed.
class hopper {
public:
    struct promise_type {
        hopper get_return_object() {
            return hopper(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };

    hopper(const hopper&) = delete;
    hopper& operator=(const hopper&) = delete;
    ~hopper() { handle.destroy(); }

    std::coroutine_handle<promise_type> handle;

private:
    explicit hopper(std::coroutine_handle<promise_type> its) : handle(its) {}
};

/// Control goes straight to another coroutine.
struct transfer {
    const std::coroutine_handle<>& to;
    explicit transfer(const std::coroutine_handle<>& other) : to(other) {}
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<>) const noexcept { return to; }
    void await_resume() const noexcept {}
};

hopper hop(const std::coroutine_handle<>* to, int* count) {
    while (++*count < hops) co_await transfer(*to);
}

/// Two coroutines pass control to each other.
bool ping_pong() {
    int count = 0;
    std::coroutine_handle<> left;
    std::coroutine_handle<> right;
    hopper one = hop(&right, &count);
    hopper other = hop(&left, &count);
    left = one.handle;
    right = other.handle;
    left.resume();
    return count == hops;
}

/// The usual task: it starts when it is awaited, and its end resumes the awaiting coroutine.
class lazy {
public:
    struct promise_type;
    using handle = std::coroutine_handle<promise_type>;

    struct promise_type {
        std::coroutine_handle<> continuation = std::noop_coroutine();

        lazy get_return_object() { return lazy(handle::from_promise(*this)); }
        std::suspend_always initial_suspend() noexcept { return {}; }
        auto final_suspend() noexcept { return transfer(continuation); }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };

    lazy(const lazy&) = delete;
    lazy& operator=(const lazy&) = delete;
    ~lazy() { handle_.destroy(); }

    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> from) const noexcept {
        handle_.promise().continuation = from;
        return handle_;
    }
    void await_resume() const noexcept {}

private:
    explicit lazy(handle its) : handle_(its) {}

    handle handle_;
};

// Not visible where it is awaited, so that no optimizer makes one coroutine of the two.
[[gnu::noinline]] lazy increment(int* count) {
    ++*count;
    co_return;
}

hopper await_tasks(int* count) {
    while (*count < hops) co_await increment(count);
}

/// One coroutine awaits a million tasks that are done at once.
bool awaits_of_finished_tasks() {
    int count = 0;
    hopper all = await_tasks(&count);
    all.handle.resume();
    return count == hops;
}

struct ready {
    bool await_ready() const noexcept { return true; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    void await_resume() const noexcept {}
};

struct changes_its_mind : ready {
    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<>) const noexcept { return false; }
};

struct suspended : ready {
    bool await_ready() const noexcept { return false; }
};

template <class Awaiter>
hopper await_often(int* count) {
    while (++*count < hops) co_await Awaiter();
}

/// One coroutine, resumed by a loop if need be.
template <class Awaiter>
bool loop_resumes() {
    int count = 0;
    hopper all = await_often<Awaiter>(&count);
    while (!all.handle.done()) all.handle.resume();
    return count == hops;
}

struct way {
    const char* text;
    verdict with_gcc_12;
    bool (*run)();
};

constexpr verdict transferred = gcc_makes_tail_calls ? verdict::right : verdict::wrong;

const way ways[] = {
    {"await_suspend returns the other coroutine", transferred, ping_pong},
    {"co_await of a task that is finished at once", transferred, awaits_of_finished_tasks},
    {"await_ready is true", verdict::right, loop_resumes<ready>},
    {"await_suspend returns false", verdict::right, loop_resumes<changes_its_mind>},
    {"a loop resumes", verdict::right, loop_resumes<suspended>},
};

bool on_a_small_stack(bool (*run)()) {
    rlimit limit{.rlim_cur = stack_size, .rlim_max = stack_size};
    return setrlimit(RLIMIT_STACK, &limit) == 0 && run();
}

TEST(canary, knows_which_ways_use_a_constant_stack) {
    for (const way& w : ways) {
        verdict expected = is_gcc_12 ? w.with_gcc_12 : verdict::right;
        finding found = in_a_child([&] { return on_a_small_stack(w.run); });
        RecordProperty(w.text, found.is == verdict::right ? "constant" : "grows");
        EXPECT_EQ(surprise(w.text, expected, found), "") << "built with " << optimization;
    }
}

[[gnu::noinline]] int descend(int depth) {
    volatile int here = depth;
    return depth == 0 ? 0 : descend(depth - 1) + here;
}

TEST(canary, sees_a_stack_that_overflows) {
    finding found = in_a_child([] { return on_a_small_stack([] { return descend(hops) > 0; }); });
    EXPECT_EQ(found.is, verdict::wrong) << found.how;
}

}  // namespace
}  // namespace canary

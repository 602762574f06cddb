// Which forms of co_await the compiler gets right. g++ 12 destroys a temporary that was made by
// aggregate initialization, closures included, one time too many if its full expression contains a
// co_await; what cenote offers and shows to users must be right with it nevertheless. The tables
// say what is known, and the test fails when a compiler does not do what they say.
#include "coroutine/canary.hpp"

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

namespace canary {
namespace {

/// Each form is run with awaits that suspend, and with awaits that do not.
bool suspends = false;

/// What the calls below return: an awaiter that has a constructor, and a result.
template <class T>
class pause {
public:
    explicit pause(T result) : result_(std::move(result)) {}
    bool await_ready() const noexcept { return !suspends; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    T await_resume() { return std::move(result_); }

private:
    T result_;
};

/// A coroutine that can be awaited; it waits once itself.
class task {
public:
    struct promise_type {
        std::coroutine_handle<> continuation = std::noop_coroutine();
        traced result{};

        task get_return_object() {
            return task(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_value(traced value) noexcept { result = std::move(value); }
        void unhandled_exception() noexcept { std::terminate(); }
    };

    task(const task&) = delete;
    task& operator=(const task&) = delete;
    ~task() { handle_.destroy(); }

    bool await_ready() const noexcept { return handle_.done(); }
    bool await_suspend(std::coroutine_handle<>) const {
        while (!handle_.done()) handle_.resume();
        return suspends;
    }
    traced await_resume() const { return handle_.promise().result; }

private:
    explicit task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

    std::coroutine_handle<promise_type> handle_;
};

// The options and awaiters a library could have, from bad to good.

struct aggregate {
    int timeout = 0;
    traced tag{};
};

struct trivial_aggregate {
    int timeout = 0;
    std::string_view tag{};
};

class built {
public:
    built() = default;
    built(int timeout, traced tag) : timeout_(timeout), tag_(std::move(tag)) {}
    built& timeout(int value) & { return timeout_ = value, *this; }
    built&& timeout(int value) && { return timeout_ = value, std::move(*this); }
    built&& tag(traced value) && { return tag_ = std::move(value), std::move(*this); }
    int sum() const { return timeout_ + tag_.value(); }

private:
    int timeout_ = 0;
    traced tag_{};
};

struct aggregate_awaiter : std::suspend_always {
    traced held{};
};

class built_awaiter : public std::suspend_always {
public:
    explicit built_awaiter(traced held) : held_(std::move(held)) {}

private:
    traced held_;
};

// The calls a library could have. All of them look at what they are given.

pause<int> by_value(aggregate a) { return pause<int>(a.timeout + a.tag.value()); }
pause<int> by_reference(const aggregate& a) { return pause<int>(a.timeout + a.tag.value()); }
task by_coroutine(aggregate a) { co_return traced(a.timeout + a.tag.value()); }
pause<int> by_default(aggregate a = {}) { return by_value(std::move(a)); }
pause<int> by_trivial(trivial_aggregate a) { return pause<int>(a.timeout); }
pause<int> by_built(built b) { return pause<int>(b.sum()); }
pause<int> by_built_default(built b = {}) { return by_built(std::move(b)); }
pause<int> by_array(const std::array<traced, 2>& two) { return pause<int>(two[1].value()); }
pause<int> by_string(std::string s) { return pause<int>(static_cast<int>(s.size())); }

template <class... Args>
pause<int> by_many(const Args&... args) {
    return pause<int>((0 + ... + args.value()));
}
template <class Callback>
pause<int> with(Callback call) {
    return pause<int>(call());
}
template <class Callback>
pause<int> with_forwarded(Callback&& call) {
    return pause<int>(std::forward<Callback>(call)());
}
pause<int> with_function(std::function<int()> call) { return pause<int>(call()); }
task with_coroutine(std::function<int()> call) { co_return traced(call()); }

pause<traced> get() { return pause<traced>(traced(1)); }
task get_by_coroutine() { co_return traced(1); }
pause<std::tuple<int, traced>> get_two() { return pause<std::tuple<int, traced>>({1, traced(2)}); }
struct refusal : pause<int> {
    using pause::pause;
    [[noreturn]] int await_resume() { throw 1; }
};
refusal fails(traced t) { return refusal(t.value()); }
pause<int> number() { return pause<int>(1); }
built_awaiter get_awaiter() { return built_awaiter(traced(1)); }

/// Whose builders return it where it is, and which is awaited there.
class staying {
public:
    explicit staying(traced held) : held_(std::move(held)) {}
    staying(staying&&) = default;
    staying&& with(traced other) && { return held_ = std::move(other), std::move(*this); }

    class awaiter : public std::suspend_always {
    public:
        explicit awaiter(staying& s) : where_(s) {}
        int await_resume() const { return where_.held_.value(); }

    private:
        staying& where_;
    };
    awaiter operator co_await() && { return awaiter(*this); }

private:
    traced held_;
};
staying stay() { return staying(traced(1)); }

/// Not known to the compiler.
volatile bool yes = true;

struct form {
    const char* text;
    verdict with_gcc_12;
    job (*run)();
};

constexpr verdict right = verdict::right;
constexpr verdict wrong = verdict::wrong;

// A form is written twice, as text and as code, because what the preprocessor would make of it has
// no line breaks and no colors. NOLINTs would drown it: these are the mistakes themselves.
const form arguments[] = {
    {"co_await f({.timeout, .tag}), aggregate with a destructor, by value", wrong,
     []() -> job { co_await by_value({.timeout = 1, .tag = traced(1)}); }},
    {"co_await f(aggregate{timeout, tag}), by value", wrong,
     []() -> job { co_await by_value(aggregate{1, traced(1)}); }},
    {"co_await f(aggregate{}), by value", wrong, []() -> job { co_await by_value(aggregate{}); }},
    {"co_await f({}), aggregate with a destructor, by value", wrong,
     []() -> job { co_await by_value({}); }},
    {"co_await f({.timeout, .tag}), by const&", wrong,
     []() -> job { co_await by_reference({.timeout = 1, .tag = traced(1)}); }},
    {"co_await coroutine({.timeout, .tag})", wrong,
     []() -> job { co_await by_coroutine({.timeout = 1, .tag = traced(1)}); }},
    {"co_await f(), the same as a default argument", wrong, []() -> job { co_await by_default(); }},
    {"co_await f(std::array{traced, traced})", wrong,
     []() -> job { co_await by_array(std::array<traced, 2>{traced(1), traced(2)}); }},
    {"co_await f(std::move(named aggregate))", right,
     []() -> job {
         aggregate named{.timeout = 1, .tag = traced(1)};
         co_await by_value(std::move(named));
     }},
    {"auto a = f({.timeout, .tag}); co_await a", right,
     []() -> job {
         auto a = by_value({.timeout = 1, .tag = traced(1)});
         co_await a;
     }},
    {"co_await f({.timeout, .tag}), nothing to destroy", right,
     []() -> job { co_await by_trivial({.timeout = 1, .tag = "a"}); }},
    {"co_await f({}), nothing to destroy", right, []() -> job { co_await by_trivial({}); }},
    {"co_await f({timeout, tag}), class with a constructor", right,
     []() -> job { co_await by_built({1, traced(1)}); }},
    {"co_await f(built(timeout, tag))", right,
     []() -> job { co_await by_built(built(1, traced(1))); }},
    {"co_await f(built().timeout().tag())", right,
     []() -> job { co_await by_built(built().timeout(1).tag(traced(2))); }},
    {"co_await f(), class with a constructor as a default argument", right,
     []() -> job { co_await by_built_default(); }},
    {"co_await f(std::string)", right,
     []() -> job { co_await by_string(std::string(100, 'a') + "b"); }},
    {"co_await f(traced, traced, ...)", right,
     []() -> job { co_await by_many(traced(1), traced(2), traced(3)); }},
};

const form closures[] = {
    {"co_await with([copy] {}), by value", wrong,
     []() -> job {
         traced t(1);
         co_await with([t] { return t.value(); });
     }},
    {"co_await with([moved] {}), by value", wrong,
     []() -> job {
         traced t(1);
         co_await with([t = std::move(t)] { return t.value(); });
     }},
    {"co_await with([copy] {}), forwarded", wrong,
     []() -> job {
         traced t(1);
         co_await with_forwarded([t] { return t.value(); });
     }},
    {"co_await with([copy] {}), by std::function", wrong,
     []() -> job {
         traced t(1);
         co_await with_function([t] { return t.value(); });
     }},
    {"co_await coroutine([copy] {}), by std::function", wrong,
     []() -> job {
         traced t(1);
         co_await with_coroutine([t] { return t.value(); });
     }},
    {"co_await [copy]() -> task {}()", wrong,
     []() -> job {
         traced t(1);
         co_await [t]() -> task { co_return traced(t.value()); }();
     }},
    {"co_await with([&] {})", right,
     []() -> job {
         traced t(1);
         co_await with([&] { return t.value(); });
     }},
    {"co_await with([number] {})", right,
     []() -> job {
         int n = 1;
         co_await with([n] { return n; });
     }},
    {"co_await with(std::move(named closure))", right,
     []() -> job {
         auto named = [t = traced(1)] { return t.value(); };
         co_await with(std::move(named));
     }},
    {"co_await with(std::ref(named closure))", right,
     []() -> job {
         auto named = [t = traced(1)] { return t.value(); };
         co_await with(std::ref(named));
     }},
    {"auto a = with([copy] {}); co_await a", right,
     []() -> job {
         traced t(1);
         auto a = with([t] { return t.value(); });
         co_await a;
     }},
};

const form awaiters[] = {
    {"co_await aggregate_awaiter{.held}", wrong,
     []() -> job { co_await aggregate_awaiter{{}, traced(1)}; }},
    {"co_await built_awaiter(held)", right, []() -> job { co_await built_awaiter(traced(1)); }},
    {"co_await f(), which returns built_awaiter", right, []() -> job { co_await get_awaiter(); }},
    {"co_await f().with(more), which returns itself, with operator co_await", right,
     []() -> job { co_await stay().with(traced(2)); }},
    {"co_await f().with(yes ? g() : traced(2))", wrong,
     []() -> job { co_await stay().with(yes ? traced(1) : traced(2)); }},
    {"co_await named aggregate_awaiter", right,
     []() -> job {
         aggregate_awaiter named{{}, traced(1)};
         co_await named;
     }},
};

const form results[] = {
    {"yes ? co_await f() : traced(2)", wrong,
     []() -> job {
         traced t = yes ? co_await get() : traced(2);
         (void)t.value();
     }},
    {"!yes ? co_await f() : traced(2)", wrong,
     []() -> job {
         traced t = !yes ? co_await get() : traced(2);
         (void)t.value();
     }},
    {"yes ? co_await f() : co_await g()", wrong,
     []() -> job {
         traced t = yes ? co_await get() : co_await get();
         (void)t.value();
     }},
    {"yes ? (co_await f()).value() : 0", right,
     []() -> job {
         int t = yes ? (co_await get()).value() : 0;
         (void)t;
     }},
    {"aggregate a{1, co_await f()}", wrong,
     []() -> job {
         aggregate a{1, co_await get()};
         (void)a.tag.value();
     }},
    {"traced t = co_await f()", right,
     []() -> job {
         traced t = co_await get();
         (void)t.value();
     }},
    {"auto t = co_await coroutine()", right,
     []() -> job {
         auto t = co_await get_by_coroutine();
         (void)t.value();
     }},
    {"t = co_await f()", right,
     []() -> job {
         traced t;
         t = co_await get();
     }},
    {"co_await f(), result dropped", right, []() -> job { co_await get(); }},
    {"(co_await f()).value()", right, []() -> job { (void)(co_await get()).value(); }},
    {"f(co_await g())", right, []() -> job { (void)by_many(co_await get()); }},
    {"if (auto t = co_await f(); t.value())", right,
     []() -> job {
         if (auto t = co_await get(); t.value() == 1) co_await number();
     }},
    {"co_await f() && co_await g()", right,
     []() -> job {
         if (co_await number() && (co_await get()).value()) co_await number();
     }},
    {"while (co_await f())", right,
     []() -> job {
         for (int i = 0; i < 3 && (co_await get()).value(); ++i) co_await number();
     }},
    {"try { co_await f(traced); } catch (...) {}", right,
     []() -> job {
         try {
             co_await fails(traced(1));
         } catch (int) {
             (void)yes;
         }
     }},
    {"auto [a, b] = co_await f()", right,
     []() -> job {
         auto [a, b] = co_await get_two();
         (void)b.value();
     }},
};

/// Whether all that is born in the form dies in it.
bool comes_out_even(const form& f) {
    suspends = false;
    f.run().finish();
    suspends = true;
    f.run().finish();
    f.run();  // destroyed where it is suspended
    return books::open().balanced();
}

template <class Forms>
void compare(const Forms& forms) {
    for (const form& f : forms) {
        verdict expected = is_gcc_12 ? f.with_gcc_12 : right;
        finding found = in_a_child([&] { return comes_out_even(f); });
        EXPECT_EQ(surprise(f.text, expected, found), "");
    }
}

TEST(canary, knows_which_arguments_are_destroyed_once) { compare(arguments); }

TEST(canary, knows_which_closures_are_destroyed_once) { compare(closures); }

TEST(canary, knows_which_awaiters_are_destroyed_once) { compare(awaiters); }

TEST(canary, knows_which_results_are_destroyed_once) { compare(results); }

/// What every compilation below begins with.
constexpr const char* preamble = R"(
    #include <coroutine>
        #include <vector>
    template <class T>
    struct pause : std::suspend_always {
        T await_resume();
    };
    struct job {
        struct promise_type {
            job get_return_object();
            std::suspend_never initial_suspend() noexcept;
            std::suspend_never final_suspend() noexcept;
            void return_void();
            void unhandled_exception();
        };
    };
    pause<int> number();
    pause<int> by_list(std::initializer_list<int>);
    pause<int> by_vector(std::vector<int>);
)";

struct statement {
    const char* text;
    verdict with_gcc_12;
};

const statement lists[] = {
    {"co_await number();", right},
    {"co_await by_list({1, 2});", wrong},
    {"co_await by_vector({1, 2});", wrong},
    {"co_await by_vector(std::vector<int>{1, 2});", wrong},
    {"std::vector<int> v{co_await number(), co_await number()};", wrong},
    {"std::vector<int> v{1, 2}; co_await by_vector(v);", right},
    {"int list[] = {1, 2}; co_await by_vector({list, list + 2});", right},
};

/// Whether the compiler that compiled this test accepts `code`.
bool compiles(const std::string& code) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    auto written = write(ends[1], code.data(), code.size());  // less than a pipe holds
    close(ends[1]);
    dup2(ends[0], STDIN_FILENO);
    if (written != static_cast<ssize_t>(code.size())) return false;
    execlp(CENOTE_CANARY_COMPILER, CENOTE_CANARY_COMPILER, "-std=c++20", "-fsyntax-only", "-x",
           "c++", "-", nullptr);
    return false;
}

TEST(canary, knows_which_braced_lists_are_accepted) {
    for (const statement& s : lists) {
        finding found = in_a_child(
            [&] { return compiles(std::string(preamble) + "job form() { " + s.text + " }"); });
        EXPECT_EQ(surprise(s.text, is_gcc_12 ? s.with_gcc_12 : right, found), "");
    }
}

TEST(canary, sees_an_object_that_is_destroyed_twice) {
    finding found = in_a_child([] {
        {
            traced t;
            books::open().died(&t);
        }
        return books::open().balanced();
    });
    EXPECT_EQ(found.is, wrong) << found.how;
}

TEST(canary, sees_an_object_that_is_never_destroyed) {
    finding found = in_a_child([] {
        books::open().born(&suspends);
        return books::open().balanced();
    });
    EXPECT_EQ(found.is, wrong) << found.how;
}

}  // namespace
}  // namespace canary

// Acquires without a thread: each is a coroutine that awaits its lease, calls back, and is gone.
#include <chrono>
#include <coroutine>
#include <exception>
#include <optional>
#include <stop_token>
#include <utility>

#include "c/cells.hpp"
#include "c/failure.hpp"
#include "c/hosts.hpp"
#include "c/options.hpp"
#include "cenote/cenote.h"
#include "cenote/coroutine.hpp"

namespace cenote::c {

namespace {

/// A coroutine that nobody waits for.
struct detached {
    struct promise_type {
        detached get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};

/// One callback at a time on a thread: one that acquires again, and finds a lease at once, or that
/// releases what another one waits for, would otherwise call the next from within, and that one the
/// next. Whoever comes while one runs goes on when it has returned, on the same thread.
///
///     turn mine;
///     … co_await pool.co_acquire(…).resumed_by(mine.taker()) …
///     co_await mine;   // it is our turn now
///     mine.pass();
class turn {
public:
    turn() = default;
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

    /// Resumes a coroutine when it is its turn.
    auto taker() noexcept {
        return [this](std::coroutine_handle<> frame) { take(frame); };
    }

    bool await_ready() noexcept {
        if (has_it_) return true;
        if (here.running) return false;
        has_it_ = runs_line_ = here.running = true;
        return true;
    }
    void await_suspend(std::coroutine_handle<> frame) noexcept {
        frame_ = frame;
        here.push(*this);
    }
    void await_resume() noexcept {}

    /// The end of it.
    void pass() noexcept {
        if (runs_line_) run_line();
    }
    /// Those who wait for their turn on this thread have it.
    static void resume_all_here() noexcept {
        while (turn* next = here.pop()) {
            next->has_it_ = true;
            next->frame_.resume();
        }
    }

private:
    struct line {
        void push(turn& t) noexcept {
            (last == nullptr ? first : last->next_) = &t;
            last = &t;
        }
        turn* pop() noexcept {
            turn* t = first;
            if (t == nullptr) return nullptr;
            first = t->next_;
            if (first == nullptr) last = nullptr;
            return t;
        }
        turn* first = nullptr;
        turn* last = nullptr;
        bool running = false;
    };
    static thread_local constinit line here;

    void take(std::coroutine_handle<> frame) noexcept {
        await_suspend(frame);
        if (here.running) return;
        here.running = true;
        run_line();
    }
    static void run_line() noexcept {
        resume_all_here();
        here.running = false;
    }

    std::coroutine_handle<> frame_;
    turn* next_ = nullptr;
    bool has_it_ = false;
    bool runs_line_ = false;
};
thread_local constinit turn::line turn::here;

/// What was asked. Trivial: g++ 12 may destroy others twice that are handed to a coroutine.
struct wanted {
    host* from;
    acquire_options how;
    cenote_on_acquired done;
    void* context;
    cenote_request number;
};

void answer(const wanted& w, lease<item> held, const cenote_failure& why) noexcept {
    engaged here(*w.from);
    if (!held) return w.done(w.context, why.code, 0, nullptr, &why);
    void* resource = held->resource;
    cenote_lease number = cell::keep(std::move(held), cell::holder::unknown);
    w.done(w.context, CENOTE_OK, number, resource, nullptr);
}

detached acquire(wanted w, std::stop_token stop) {
    detail::process_number began_in = detail::this_process;
    lease<item> held;
    cenote_failure why{};
    why.size = sizeof why;
    turn mine;
    auto taker = mine.taker();
    try {
        w.how.stop = stop;
        held = co_await w.from->pool().co_acquire(w.how, std::source_location()).resumed_by(taker);
    } catch (...) {
        describe_exception(&why);
    }
    w.from->strike(w.number);
    co_await mine;
    // In the child of a fork it is the parent's who is answered.
    if (began_in == detail::this_process) answer(w, std::move(held), why);
    w.from->dismiss(began_in);
    mine.pass();
}

}  // namespace

void answer_those_waiting_here() noexcept { turn::resume_all_here(); }

}  // namespace cenote::c

extern "C" {

cenote_code cenote_acquire_async(cenote_pool pool, const cenote_wish* wish, cenote_on_acquired done,
                                 void* context, cenote_request* request) {
    using namespace cenote::c;
    if (request != nullptr) *request = 0;
    wanted w{nullptr, {}, done, context, 0};
    if (done == nullptr || !read_wish(wish, w.how)) return CENOTE_INVALID_ARGUMENT;
    std::stop_token token;
    cenote_code code = guarded([&] {
        visit in(pool);
        if (!in) return in.code();
        w.from = &in.where();
        std::stop_source stop;
        token = stop.get_token();
        w.number = w.from->enlist(std::move(stop));
        return cenote_code{CENOTE_OK};
    });
    if (code != CENOTE_OK) return code;
    // From here on it is the request that keeps the pool. It can be called back before this
    // returns.
    if (request != nullptr) *request = w.number;
    return guarded([&] {
        try {
            acquire(w, std::move(token));
        } catch (...) {
            w.from->strike(w.number);
            w.from->dismiss(cenote::detail::this_process);
            if (request != nullptr) *request = 0;
            throw;
        }
        return CENOTE_OK;
    });
}

cenote_code cenote_cancel(cenote_pool pool, cenote_request request) {
    std::optional<std::stop_source> stop;
    {
        cenote::c::visit in(pool);
        if (!in) return in.code();
        cenote_code code = in.where().find(request, stop);
        if (code != CENOTE_OK) return code;
    }
    // As long as it waits, it keeps the pool; and it does not go on before this has stopped it.
    stop->request_stop();
    return CENOTE_OK;
}

}  // extern "C"

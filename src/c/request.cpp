// Acquires without a thread: each is a coroutine that awaits its lease, calls back, and is gone.
#include <chrono>
#include <coroutine>
#include <exception>
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

/// One callback at a time on a thread: one that acquires again, and finds a lease at once, would
/// otherwise call the next from within, and that one the next. Whoever comes while one runs goes on
/// when it has returned, on the same thread.
class turn {
public:
    bool await_ready() noexcept {
        if (line_here != nullptr) return false;
        line_here = &others_;
        first_ = true;
        return true;
    }
    void await_suspend(std::coroutine_handle<> me) noexcept {
        frame_ = me;
        line_here->push(*this);
    }
    void await_resume() noexcept {}

    /// The end of it. Requires that it was its turn.
    void pass() noexcept {
        if (!first_) return;
        pass_all_here();
        line_here = nullptr;
    }
    /// Whoever waits for their turn on this thread has it.
    static void pass_all_here() noexcept {
        if (line_here == nullptr) return;
        while (turn* next = line_here->pop()) next->frame_.resume();
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
    };
    static thread_local constinit line* line_here;

    line others_;
    bool first_ = false;
    std::coroutine_handle<> frame_;
    turn* next_ = nullptr;
};
thread_local constinit turn::line* turn::line_here = nullptr;

/// What was asked. Trivial: see docs/hazards of coroutines with g++ 12.
struct wanted {
    host* from;
    acquire_options how;
    cenote_on_acquired done;
    void* context;
    cenote_request number;
};

void answer(const wanted& w, lease<item> held, const cenote_failure& why) noexcept {
    in_callback here(*w.from);
    if (!held) return w.done(w.context, why.code, 0, nullptr, &why);
    void* resource = held->resource;
    cell& place = *held->place;
    cenote_lease number = place.keep(std::move(held));
    w.done(w.context, CENOTE_OK, number, resource, nullptr);
}

detached acquire(wanted w, std::stop_token stop) {
    detail::process_number began_in = detail::this_process;
    lease<item> held;
    cenote_failure why{};
    why.size = sizeof why;
    try {
        held = co_await w.from->pool().co_acquire(w.how, {}).stopped_by(std::move(stop));
    } catch (...) {
        describe_exception(&why);
    }
    w.from->strike(w.number);
    turn mine;
    co_await mine;
    answer(w, std::move(held), why);
    mine.pass();
    w.from->dismiss(began_in);
}

}  // namespace

void answer_those_waiting_here() noexcept { turn::pass_all_here(); }

}  // namespace cenote::c

extern "C" {

cenote_code cenote_acquire_async(cenote_pool pool, const cenote_wish* wish, cenote_on_acquired done,
                                 void* context, cenote_request* request) {
    using namespace cenote::c;
    if (request != nullptr) *request = 0;
    wanted w{nullptr, {}, done, context, 0};
    if (done == nullptr || !read_wish(wish, w.how)) return CENOTE_INVALID_ARGUMENT;
    visit in(pool);
    if (!in) return in.code();
    w.from = &in.where();
    return guarded([&] {
        std::stop_source stop;
        std::stop_token token = stop.get_token();
        w.number = w.from->enlist(std::move(stop));
        // Before it can be called back.
        if (request != nullptr) *request = w.number;
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
    cenote::c::visit in(pool);
    return in ? in.where().cancel(request) : in.code();
}

}  // extern "C"

// Asynchronous acquires: each is a coroutine that awaits a lease and calls the callback.
#include <chrono>
#include <coroutine>
#include <exception>
#include <optional>
#include <stop_token>
#include <utility>

#include "c/cells.hpp"
#include "c/failure.hpp"
#include "c/options.hpp"
#include "c/pool_entries.hpp"
#include "cenote/cenote.h"
#include "cenote/coroutine.hpp"

namespace cenote::c {

namespace {

/// A coroutine without a result, which destroys itself.
struct detached {
    struct promise_type {
        detached get_return_object() noexcept { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() noexcept {}
        void unhandled_exception() noexcept { std::terminate(); }
    };
};

/// Runs callbacks on a thread one after the other. A callback that acquires again, or releases what
/// another request waits for, would otherwise run further callbacks from within, without a limit.
/// Requests that complete while a callback runs are queued, and continue on that thread after it.
///
///     callback_turn turn;
///     auto resumer = turn.resumer();
///     … co_await pool.co_acquire(…).resumed_by(resumer) …
///     co_await turn;    // until no other callback runs on this thread
///     … the callback …
///     turn.finish();
class callback_turn {
public:
    callback_turn() = default;
    callback_turn(const callback_turn&) = delete;
    callback_turn& operator=(const callback_turn&) = delete;

    /// Resumes the coroutine now, or queues it behind a running callback.
    auto resumer() noexcept {
        return [this](std::coroutine_handle<> frame) { resume(frame); };
    }

    bool await_ready() noexcept {
        if (has_turn_) return true;
        if (here.running) return false;
        has_turn_ = runs_queue_ = here.running = true;
        return true;
    }
    void await_suspend(std::coroutine_handle<> frame) noexcept {
        frame_ = frame;
        here.push(*this);
    }
    void await_resume() noexcept {}

    void finish() noexcept {
        if (runs_queue_) run_queue();
    }
    /// Resumes all requests queued on this thread.
    static void resume_queued() noexcept {
        while (callback_turn* next = here.pop()) {
            next->has_turn_ = true;
            next->frame_.resume();
        }
    }

private:
    struct queue {
        void push(callback_turn& t) noexcept {
            (last == nullptr ? first : last->next_) = &t;
            last = &t;
        }
        callback_turn* pop() noexcept {
            callback_turn* t = first;
            if (t == nullptr) return nullptr;
            first = t->next_;
            if (first == nullptr) last = nullptr;
            return t;
        }
        callback_turn* first = nullptr;
        callback_turn* last = nullptr;
        bool running = false;
    };
    static thread_local constinit queue here;

    void resume(std::coroutine_handle<> frame) noexcept {
        await_suspend(frame);
        if (here.running) return;
        here.running = true;
        run_queue();
    }
    static void run_queue() noexcept {
        resume_queued();
        here.running = false;
    }

    std::coroutine_handle<> frame_;
    callback_turn* next_ = nullptr;
    bool has_turn_ = false;
    bool runs_queue_ = false;
};
thread_local constinit callback_turn::queue callback_turn::here;

/// The arguments of a request. Trivially destructible, because g++ 12 may destroy others twice when
/// they are passed to a coroutine.
struct async_request {
    pool_entry* entry;
    acquire_options how;
    cenote_on_acquired done;
    void* context;
    cenote_request number;
};

void complete(const async_request& r, lease<item> held, const cenote_failure& why) noexcept {
    callback_scope scope(*r.entry);
    if (!held) return r.done(r.context, why.code, 0, nullptr, &why);
    void* resource = held->resource;
    cenote_lease number = cell::store(std::move(held), cell::holder::unknown);
    r.done(r.context, CENOTE_OK, number, resource, nullptr);
}

detached acquire(async_request r, std::stop_token stop) {
    detail::process_number began_in = detail::this_process;
    lease<item> held;
    cenote_failure why{};
    why.size = sizeof why;
    callback_turn turn;
    auto resumer = turn.resumer();
    try {
        r.how.stop = stop;
        held =
            co_await r.entry->pool().co_acquire(r.how, std::source_location()).resumed_by(resumer);
    } catch (...) {
        describe_exception(&why);
    }
    r.entry->remove_request(r.number);
    co_await turn;
    // After a fork only the parent calls the callback.
    if (began_in == detail::this_process) complete(r, std::move(held), why);
    r.entry->unpin(began_in);
    turn.finish();
}

}  // namespace

void run_queued_callbacks() noexcept { callback_turn::resume_queued(); }

}  // namespace cenote::c

extern "C" {

cenote_code cenote_acquire_async(cenote_pool pool, const cenote_acquire_options* options,
                                 cenote_on_acquired done, void* context, cenote_request* request) {
    using namespace cenote::c;
    if (request != nullptr) *request = 0;
    async_request r{nullptr, {}, done, context, 0};
    if (done == nullptr || !read_acquire_options(options, r.how)) return CENOTE_INVALID_ARGUMENT;
    std::stop_token token;
    cenote_code code = guarded([&] {
        pool_pin pin(pool);
        if (!pin) return pin.code();
        r.entry = &pin.entry();
        std::stop_source stop;
        token = stop.get_token();
        r.number = r.entry->add_request(std::move(stop));
        return cenote_code{CENOTE_OK};
    });
    if (code != CENOTE_OK) return code;
    // From here on the request pins the pool. `done` may be called before this function returns.
    if (request != nullptr) *request = r.number;
    return guarded([&] {
        try {
            acquire(r, std::move(token));
        } catch (...) {
            r.entry->remove_request(r.number);
            r.entry->unpin(cenote::detail::this_process);
            if (request != nullptr) *request = 0;
            throw;
        }
        return CENOTE_OK;
    });
}

cenote_code cenote_cancel(cenote_pool pool, cenote_request request) {
    std::optional<std::stop_source> stop;
    {
        cenote::c::pool_pin pin(pool);
        if (!pin) return pin.code();
        cenote_code code = pin.entry().find_request(request, stop);
        if (code != CENOTE_OK) return code;
    }
    // A waiting request pins the pool, and cannot complete while its stop is being requested.
    stop->request_stop();
    return CENOTE_OK;
}

}  // extern "C"

// How coroutines are resumed on the thread that lets them go on.
//
// A hand-over runs in somebody's release. If it resumed the next coroutine right there, and that
// one released in its turn, the stack would grow with the length of the chain. So each thread has a
// loop: the first hand-over on its stack runs it, the others leave their coroutines to it.
#include <thread>

#include "cenote/coroutine.hpp"

namespace cenote::detail {

struct coroutine_waiter::inline_loop {
    coroutine_waiter* first = nullptr;
    coroutine_waiter* last = nullptr;
    bool running = false;

    static inline_loop& here() {
        static constinit thread_local inline_loop mine;
        return mine;
    }

    void push(coroutine_waiter* w) {
        w->next = nullptr;
        if (last == nullptr) first = w;
        else last->next = w;
        last = w;
    }
    coroutine_waiter* pop() {
        coroutine_waiter* w = first;
        first = static_cast<coroutine_waiter*>(w->next);
        if (first == nullptr) last = nullptr;
        return w;
    }
    void remove(coroutine_waiter* gone) {
        coroutine_waiter* before = nullptr;
        for (coroutine_waiter* w = first; w != nullptr;
             before = w, w = static_cast<coroutine_waiter*>(w->next)) {
            if (w != gone) continue;
            if (before == nullptr) first = static_cast<coroutine_waiter*>(w->next);
            else before->next = w->next;
            if (last == w) last = before;
            return;
        }
    }
};

void coroutine_waiter::resume_inline(coroutine_waiter& me) noexcept {
    inline_loop& loop = inline_loop::here();
    loop.push(&me);
    me.handed_over_.store(true, std::memory_order_release);
    if (loop.running) return;
    loop.running = true;
    while (loop.first != nullptr) loop.pop()->handle().resume();
    loop.running = false;
}

void coroutine_waiter::retract_inline(coroutine_waiter& me) noexcept {
    inline_loop::here().remove(&me);
}

void coroutine_waiter::wait_for_hand_over() const noexcept {
    if (notifying_here == this) {
        notifying_here = nullptr;
        return;
    }
    // In the child of a fork whoever notifies may be a thread that is gone.
    process_number here = this_process;
    while (!handed_over_.load(std::memory_order_acquire) && waits_in_ == here)
        std::this_thread::yield();
}

void coroutine_waiter::leave() noexcept {
    if (stop_) stop_->called.reset();
    if (gate_->withdraw(*this)) return;
    if (!gate::take_back(*this)) {
        wait_for_hand_over();
        way_->retract(*this);
    }
    abandon();
}

void coroutine_waiter::refuse() {
    struct forgets {
        coroutine_waiter& me;
        ~forgets() { me.forget(); }
    };
    [[maybe_unused]] forgets at_the_end{*this};
    if (way_->rethrow != nullptr) way_->rethrow(room_);
    gate_->refused(error);
    if (error_to_ == nullptr) gate_->fail(error, arrived, wants.queues);
    *error_to_ = error;
}

}  // namespace cenote::detail

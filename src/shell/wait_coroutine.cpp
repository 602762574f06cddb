// How coroutines are resumed on the thread that lets them go on.
//
// A hand-over runs in somebody's release. If it resumed the next coroutine right there, and that
// one released in its turn, the stack would grow with the length of the chain. So each thread has a
// loop: the first hand-over on its stack runs it, the others leave their coroutines to it.
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

void coroutine_waiter::hand_over(resume_inline&) noexcept {
    inline_loop& loop = inline_loop::here();
    loop.push(this);
    handed_over_.store(true, std::memory_order_release);
    if (loop.running) return;
    loop.running = true;
    while (loop.first != nullptr) loop.pop()->frame_.resume();
    loop.running = false;
}

void coroutine_waiter::retract_inline() noexcept { inline_loop::here().remove(this); }

}  // namespace cenote::detail

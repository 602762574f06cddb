// How a coroutine that waited is resumed on the thread that ends its wait.
//
// A release resumes the coroutine that gets the lease. If it did so directly, and that coroutine
// released in turn, the stack would grow with the length of the chain. So each thread has a loop:
// the first resumption on its stack runs the loop, and the others add their coroutines to it.
#include <thread>

#include "cenote/coroutine.hpp"
#include "shell/linked_list.hpp"

namespace cenote::detail {

struct coroutine_waiter::inline_loop {
    shell::waiter_list ready;
    bool running = false;

    static inline_loop& here() {
        static constinit thread_local inline_loop mine;
        return mine;
    }
};

void coroutine_waiter::resume_inline(coroutine_waiter& me) noexcept {
    inline_loop& loop = inline_loop::here();
    loop.ready.add(me);
    me.handed_over_.store(true, std::memory_order_release);
    if (loop.running) return;
    loop.running = true;
    while (waiter* w = loop.ready.pop()) static_cast<coroutine_waiter*>(w)->handle().resume();
    loop.running = false;
}

void coroutine_waiter::retract_inline(coroutine_waiter& me) noexcept {
    inline_loop::here().ready.remove(me);
}

void coroutine_waiter::wait_for_hand_over() const noexcept {
    if (notifying_here == this) {
        notifying_here = nullptr;
        return;
    }
    // In the child of a fork the notifying thread may be gone.
    process_number here = this_process;
    while (!handed_over_.load(std::memory_order_acquire) && waits_in_ == here)
        std::this_thread::yield();
}

void coroutine_waiter::leave() noexcept {
    if (stop_) stop_->called.reset();
    if (gate_->withdraw(*this)) return;
    if (!gate::withdraw_pending(*this)) {
        wait_for_hand_over();
        way_->retract(*this);
    }
    abandon();
}

void coroutine_waiter::refuse() {
    struct at_end {
        coroutine_waiter& me;
        ~at_end() { me.drop_reference(); }
    };
    [[maybe_unused]] at_end drops{*this};
    if (way_->rethrow != nullptr) way_->rethrow(room_);
    gate_->report_refusal(*this);
    if (error_to_ == nullptr) gate_->fail({error, arrived}, wants.queues);
    *error_to_ = error;
}

}  // namespace cenote::detail

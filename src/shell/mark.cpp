// The list of all threads' marks.
#include "cenote/detail/mark.hpp"

#include <mutex>
#include <thread>

namespace cenote::detail {

namespace {

struct registry {
    std::mutex mutex;
    gate_mark* first = nullptr;
};

// Never destroyed: threads may end after static objects are gone.
registry& all_marks() {
    static auto* instance = new registry;
    return *instance;
}

/// Takes the thread's mark out when the thread ends.
struct registration {
    registration() = default;
    registration(const registration&) = delete;
    registration& operator=(const registration&) = delete;
    ~registration() {
        this_threads_mark.over = true;
        unregister_mark(this_threads_mark);
    }
};

bool anybody_in(const gate* g) {
    registry& marks = all_marks();
    std::lock_guard lock(marks.mutex);
    for (gate_mark* m = marks.first; m != nullptr; m = m->next)
        if (m != &this_threads_mark && m->where.load(std::memory_order_acquire) == g) return true;
    return false;
}

}  // namespace

constinit thread_local gate_mark this_threads_mark;

void register_mark(gate_mark& mark) noexcept {
    if (!mark.over) {
        static thread_local registration at_thread_end;
        static_cast<void>(at_thread_end);
    }
    registry& marks = all_marks();
    std::lock_guard lock(marks.mutex);
    mark.next = marks.first;
    mark.previous = nullptr;
    if (marks.first != nullptr) marks.first->previous = &mark;
    marks.first = &mark;
    mark.registered = true;
}

void unregister_mark(gate_mark& mark) noexcept {
    registry& marks = all_marks();
    std::lock_guard lock(marks.mutex);
    if (!mark.registered) return;
    (mark.previous == nullptr ? marks.first : mark.previous->next) = mark.next;
    if (mark.next != nullptr) mark.next->previous = mark.previous;
    mark.registered = false;
}

void wait_for_marks(const gate* g) noexcept {
    // The marked stretch is a few instructions; only a preempted thread makes this loop.
    while (anybody_in(g)) std::this_thread::yield();
}

}  // namespace cenote::detail

// Keeps a pool's memory alive for a thread that has just let go of its last resource.
//
// A lease may end while its pool is being destroyed by another thread:
//
// 1. thread A lays the resource on the shelf; from now on nothing of A's keeps the keeper alive;
// 2. thread B collects it, closes it, finds the pool drained, and frees the keeper;
// 3. thread A looks at the shelf's `attention`: in freed memory.
//
// So A leaves a mark before step 1, and B waits before it frees until no thread's mark names that
// keeper. The mark is a plain store: B got the resource from A's exchange, hence also sees the mark
// that A stored before it.
#pragma once

#include <atomic>

namespace cenote::detail {

class gate;

/// One thread's mark. Registered with the first use, taken out when the thread ends. A lease may be
/// thread-local and end later still: then (`over`) the mark is registered for that moment only.
struct gate_mark {
    std::atomic<const gate*> where{nullptr};
    gate_mark* next = nullptr;
    gate_mark* previous = nullptr;
    bool registered = false;
    bool over = false;
};

extern constinit thread_local gate_mark this_threads_mark;

void register_mark(gate_mark& mark) noexcept;
void unregister_mark(gate_mark& mark) noexcept;

/// Waits until no thread is marked as being in `g`.
void wait_for_marks(const gate* g) noexcept;

/// Marks the calling thread for as long as it lives.
class mark_gate {
public:
    explicit mark_gate(const gate* g) noexcept : mark_(this_threads_mark) {
        if (!mark_.registered) [[unlikely]]
            register_mark(mark_);
        outer_ = mark_.where.load(std::memory_order_relaxed);
        mark_.where.store(g, std::memory_order_relaxed);
    }
    ~mark_gate() {
        mark_.where.store(outer_, std::memory_order_release);
        if (mark_.over) [[unlikely]]
            unregister_mark(mark_);
    }
    mark_gate(const mark_gate&) = delete;
    mark_gate& operator=(const mark_gate&) = delete;

private:
    gate_mark& mark_;
    const gate* outer_;
};

}  // namespace cenote::detail

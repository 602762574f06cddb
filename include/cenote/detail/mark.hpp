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

/// One thread's mark, in a line of its own: nobody else writes it.
struct alignas(64) gate_mark {
    std::atomic<const gate*> where{nullptr};
    std::atomic<const void*> visits{nullptr};  // for who has another reason to be waited for
    gate_mark* next = nullptr;
    gate_mark* previous = nullptr;
    bool allocated = false;

    // By its thread only.

    /// Names a gate until leave(), to which goes what this returns: where the thread was before.
    const gate* enter(const gate* g) noexcept {
        const gate* outer = where.load(std::memory_order_relaxed);
        where.store(g, std::memory_order_relaxed);
        return outer;
    }
    void leave(const gate* outer) noexcept { where.store(outer, std::memory_order_release); }
};

/// Null until the thread is registered, and again when it ends. Without one a thread must not put
/// anything on a shelf.
extern constinit thread_local gate_mark* this_threads_mark;

/// Gives the calling thread a mark for the rest of its life, if it has none. There may be no memory
/// for one: then it stays without, and its releases take the slow way.
void register_this_thread() noexcept;
/// The same for a release, which must not allocate: only if there is a mark to be had without.
void register_without_allocating() noexcept;

/// Waits until no thread is marked as being in `g`.
void wait_for_marks(const gate* g) noexcept;

/// Whether a thread's mark says that it visits `what`.
bool anybody_visits(const void* what) noexcept;

// Around a fork.

void lock_marks() noexcept;
void unlock_marks() noexcept;
/// In the child, between these two: takes the marks of threads that are gone.
void forget_other_marks() noexcept;

}  // namespace cenote::detail

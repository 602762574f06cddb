// Marks: they keep a keeper's memory alive for a thread that has just put back its last resource.
//
// A lease may end while another thread destroys the pool:
//
// 1. Thread A puts the resource on the shelf. From now on no reference of A keeps the keeper alive.
// 2. Thread B collects the resource, closes it, finds the pool drained, and frees the keeper.
// 3. Thread A reads the shelf's `attention`, in freed memory.
//
// So A marks the keeper before step 1, and B waits before it frees a keeper until no thread's mark
// names it. The mark is a plain store: B got the resource from A's exchange, so B also sees the
// mark that A stored before the exchange.
#pragma once

#include <atomic>

namespace cenote::detail {

class gate;

/// The mark of one thread, on its own cache line: only that thread writes `where` and `visits`.
struct alignas(64) gate_mark {
    std::atomic<const gate*> where{nullptr};
    std::atomic<const void*> visits{nullptr};  // for other owners that wait for threads: the C API
    gate_mark* next = nullptr;
    gate_mark* previous = nullptr;
    bool allocated = false;

    /// Marks a gate until leave(). Returns what was marked before, which leave() restores: calls
    /// can nest.
    const gate* enter(const gate* g) noexcept {
        const gate* outer = where.load(std::memory_order_relaxed);
        where.store(g, std::memory_order_relaxed);
        return outer;
    }
    void leave(const gate* outer) noexcept { where.store(outer, std::memory_order_release); }
};

/// Null until the thread is registered, and again when the thread ends. A thread without a mark
/// must not put a resource on a shelf.
extern constinit thread_local gate_mark* this_threads_mark;

/// Gives the calling thread a mark for the rest of its life. If memory runs out, the thread stays
/// without a mark, and its releases take the slow path.
void register_this_thread() noexcept;
/// For a release, which must not allocate: registers the thread if a reserved mark is free.
void register_without_allocating() noexcept;

/// Waits until no thread marks `g`.
void wait_for_marks(const gate* g) noexcept;

/// Whether `visits` of any thread's mark is `what`.
bool is_visited(const void* what) noexcept;

// Around a fork.

void lock_marks() noexcept;
void unlock_marks() noexcept;
/// In the child, between lock_marks() and unlock_marks(): frees the marks of threads that are gone.
void forget_other_marks() noexcept;

}  // namespace cenote::detail

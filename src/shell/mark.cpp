// All threads' marks: where a thread gets one, and where it goes when the thread ends.
//
// A release must neither fail nor allocate, also the first one on its thread. So the first marks
// are there from the beginning, and what tells us that a thread ends is a key of the system: for a
// thread-local object with a destructor the C library allocates, and ends the process if it cannot.
#include "cenote/detail/mark.hpp"

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <thread>
#include <utility>

namespace cenote::detail {

constinit thread_local gate_mark* this_threads_mark = nullptr;

namespace {

/// So many threads at a time get their mark without an allocation.
constexpr std::size_t reserve = 256;
constinit gate_mark reserved[reserve];

/// All of this is guarded by `mutex`.
struct registry {
    std::mutex mutex;
    gate_mark* first = nullptr;  // the marks of all threads
    gate_mark* spare = nullptr;  // reserved ones that were given back
    std::size_t unused = reserve;
    pthread_key_t thread_ends{};
    bool has_key = false;
};

// Never destroyed: threads may end after static objects are gone. Not on the heap: see above.
registry& all_marks() {
    alignas(registry) static std::byte room[sizeof(registry)];
    static auto* instance = ::new (static_cast<void*>(room)) registry;
    return *instance;
}

// Under the lock.

gate_mark* take_reserved(registry& all) {
    if (all.spare != nullptr) return std::exchange(all.spare, all.spare->next);
    return all.unused == 0 ? nullptr : &reserved[--all.unused];
}

void put_back_reserved(registry& all, gate_mark* m) { m->next = std::exchange(all.spare, m); }

void link(registry& all, gate_mark* m) {
    m->next = all.first;
    m->previous = nullptr;
    if (all.first != nullptr) all.first->previous = m;
    all.first = m;
}

void unlink(registry& all, gate_mark* m) {
    (m->previous == nullptr ? all.first : m->previous->next) = m->next;
    if (m->next != nullptr) m->next->previous = m->previous;
}

void when_thread_ends(void* mark) noexcept {
    auto* m = static_cast<gate_mark*>(mark);
    this_threads_mark = nullptr;
    {
        registry& all = all_marks();
        std::lock_guard lock(all.mutex);
        unlink(all, m);
        if (!m->allocated) return put_back_reserved(all, m);
    }
    delete m;
}

/// The key must go with the code it calls, which a program may unload while its threads live on.
/// If the process is ending instead, the marks of threads that end later stay: they say "nowhere".
struct key_owner {
    explicit key_owner(registry& all) {
        all.has_key = pthread_key_create(&all.thread_ends, when_thread_ends) == 0;
    }
    ~key_owner() {
        registry& all = all_marks();
        std::lock_guard lock(all.mutex);
        if (std::exchange(all.has_key, false)) pthread_key_delete(all.thread_ends);
    }
    key_owner(const key_owner&) = delete;
    key_owner& operator=(const key_owner&) = delete;
};

/// Enters a mark for the calling thread. False: nobody would tell us that the thread ends.
bool enlist(registry& all, gate_mark* m) {
    static const key_owner key(all);
    if (!all.has_key || pthread_setspecific(all.thread_ends, m) != 0) return false;
    link(all, m);
    return true;
}

bool anybody_in(const gate* g) {
    registry& all = all_marks();
    std::lock_guard lock(all.mutex);
    for (gate_mark* m = all.first; m != nullptr; m = m->next)
        if (m != this_threads_mark && m->where.load(std::memory_order_acquire) == g) return true;
    return false;
}

}  // namespace

void register_without_allocating() noexcept {
    if (this_threads_mark != nullptr) return;
    registry& all = all_marks();
    std::lock_guard lock(all.mutex);
    gate_mark* m = take_reserved(all);
    if (m == nullptr) return;
    if (enlist(all, m)) this_threads_mark = m;
    else put_back_reserved(all, m);
}

void register_this_thread() noexcept {
    register_without_allocating();
    if (this_threads_mark != nullptr) return;
    try {
        auto m = std::make_unique<gate_mark>();
        m->allocated = true;
        registry& all = all_marks();
        std::lock_guard lock(all.mutex);
        if (enlist(all, m.get())) this_threads_mark = m.release();
    } catch (const std::bad_alloc&) {
        return;  // the next acquire tries again
    }
}

void lock_marks() noexcept { all_marks().mutex.lock(); }

void unlock_marks() noexcept { all_marks().mutex.unlock(); }

void forget_other_marks() noexcept {
    registry& all = all_marks();
    for (gate_mark* m = std::exchange(all.first, nullptr); m != nullptr;) {
        gate_mark* next = m->next;
        if (m == this_threads_mark) {
            link(all, m);
        } else {
            m->where.store(nullptr, std::memory_order_relaxed);
            m->visits.store(nullptr, std::memory_order_relaxed);
            put_back_reserved(all, m);  // also if it was allocated: it can be used again
        }
        m = next;
    }
}

void wait_for_marks(const gate* g) noexcept {
    // The marked stretch is a few instructions; only a preempted thread makes this loop.
    while (anybody_in(g)) std::this_thread::yield();
}

bool anybody_visits(const void* what) noexcept {
    registry& all = all_marks();
    std::lock_guard lock(all.mutex);
    for (gate_mark* m = all.first; m != nullptr; m = m->next)
        if (m->visits.load() == what) return true;
    return false;
}

}  // namespace cenote::detail

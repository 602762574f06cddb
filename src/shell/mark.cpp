// The registry of all threads' marks: gives each thread its mark, and takes it back when the thread
// ends.
//
// A release must neither fail nor allocate, not even the first one of its thread. So the first
// marks are static, and a pthread key reports that a thread ends: for a thread-local object with a
// destructor the C library allocates, and aborts if it cannot.
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

/// The number of threads that can have a mark without an allocation.
constexpr std::size_t reserve = 256;
constinit gate_mark reserved[reserve];

/// `mutex` guards all members.
struct registry {
    std::mutex mutex;
    gate_mark* first = nullptr;    // the marks of all threads
    gate_mark* spare = nullptr;    // reserved marks that were used before
    std::size_t unused = reserve;  // reserved marks that were never used
    pthread_key_t thread_ends{};
    bool has_key = false;
};

// Never destroyed: threads may end after static objects. Not on the heap: see above.
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

/// Deletes the key together with the function it calls: a program may unload the library while its
/// threads go on. If the process is ending, the marks of threads that end later stay in the list,
/// where they name no gate.
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

/// Adds a mark for the calling thread. False: the key is not available.
bool enlist(registry& all, gate_mark* m) {
    static const key_owner key(all);
    if (!all.has_key || pthread_setspecific(all.thread_ends, m) != 0) return false;
    link(all, m);
    return true;
}

bool is_marked(const gate* g) {
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
            put_back_reserved(all, m);  // also allocated ones: other threads can use them
        }
        m = next;
    }
}

void wait_for_marks(const gate* g) noexcept {
    // A thread is marked for a few instructions; this loops only if it is preempted there.
    while (is_marked(g)) std::this_thread::yield();
}

bool is_visited(const void* what) noexcept {
    registry& all = all_marks();
    std::lock_guard lock(all.mutex);
    for (gate_mark* m = all.first; m != nullptr; m = m->next)
        if (m->visits.load() == what) return true;
    return false;
}

}  // namespace cenote::detail

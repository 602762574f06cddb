// The resource in each slot, and what a thread of the pool has to do outside the lock: connector
// calls, orphans to close, and resources that before_acquire has to check.
//
// Everything here runs under the keeper's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cenote/detail/resource.hpp"
#include "cenote/detail/waiter.hpp"
#include "shell/job.hpp"
#include "shell/linked_list.hpp"
#include "shell/stable_array.hpp"

namespace cenote::shell {

class call_queue {
public:
    explicit call_queue(std::size_t slots) : entries_(slots) {}

    /// Makes room for this many slots. Throws std::bad_alloc before anything has changed.
    void grow(std::size_t slots) { entries_.grow(slots); }
    std::size_t slots() const { return entries_.size(); }

    /// The resource in a slot; null if there is none.
    detail::resource*& in(core::slot_id id) { return entries_[id].resource; }
    detail::resource* in(core::slot_id id) const { return entries_[id].resource; }

    /// How many jobs wait.
    std::size_t waiting() const { return waiting_; }

    /// What became of a call that was added.
    enum class added : std::uint8_t {
        queued,
        replaced,  // it took the place of a queued call of its slot
        blocked,   // a running call of its slot must return first; `before` is its number
    };
    added add(const job& call, std::uint64_t& before);
    /// Queues a call that was blocked.
    void add_blocked(core::slot_id id) { enqueue(entries_[id]); }
    /// Removes the abandoned call of a slot. False: it is not in the queue.
    bool remove(core::slot_id id);
    template <class Do>
    void for_each_call(Do what) {
        for (entry* e = first_; e != nullptr; e = e->next) what(e->pending);
    }

    /// `r` has lost its slot. It is to be closed once no call runs on it.
    void add_orphan(detail::resource* r);
    detail::resource* next_orphan() const { return orphans_.first(); }

    /// before_acquire has to check what a waiter was granted.
    void add_check(detail::waiter& who);
    /// False: it is not in the queue.
    bool remove_check(const detail::waiter& who);

    /// Takes out the next job. False: there is none.
    bool next(job& j);

    /// In the child of a fork: everything belongs to the parent.
    void restart() noexcept;

private:
    struct entry {
        detail::resource* resource = nullptr;
        job pending{};  // the next call
        bool queued = false;
        entry* next = nullptr;
        entry* previous = nullptr;
    };

    void enqueue(entry& e);
    void dequeue(entry& e);

    stable_array<entry> entries_;  // by slot
    entry* first_ = nullptr;
    entry* last_ = nullptr;
    linked_list<detail::resource, &detail::resource::next_orphan> orphans_;
    waiter_list checks_;
    std::size_t waiting_ = 0;  // calls, orphans and checks
};

}  // namespace cenote::shell

// What is in each slot, and what is to be done about it outside the lock: connector calls, orphans
// to be closed, and resources that before_acquire has to look at first.
//
// Everything here runs under the keeper's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cenote/detail/resource.hpp"
#include "cenote/detail/waiter.hpp"
#include "shell/job.hpp"
#include "shell/stable_array.hpp"

namespace cenote::shell {

class call_queue {
public:
    explicit call_queue(std::size_t slots) : places_(slots) {}

    /// There are so many slots now. Throws std::bad_alloc before anything has changed.
    void grow(std::size_t slots) { places_.grow(slots); }
    std::size_t slots() const { return places_.size(); }

    /// The resource in a slot; null if there is none.
    detail::resource*& in(core::slot_id id) { return places_[id].held; }
    detail::resource* in(core::slot_id id) const { return places_[id].held; }

    /// How many jobs wait.
    std::size_t waiting() const { return waiting_; }

    /// What became of a call that was added.
    enum class added : std::uint8_t {
        queued,
        replaced,  // a call that nobody has made yet has become this one
        blocked,   // a call that still runs has to return first; `before` is its number
    };
    /// A connector's call is to be made.
    added add(const job& call, std::uint64_t& before);
    /// The call that had to wait can be made.
    void add_blocked(core::slot_id id) { enqueue(places_[id]); }
    /// Nobody waits any more for the call of this slot. False: it is not in the queue.
    bool remove(core::slot_id id);
    /// For each call that waits to be made.
    template <class Do>
    void each_call(Do what) {
        for (place* p = first_; p != nullptr; p = p->next) what(p->pending);
    }

    /// `r` belongs to no slot any more: it is to be closed as soon as no call is on it.
    void add_orphan(detail::resource* r);
    detail::resource* next_orphan() const { return orphans_; }

    /// What a waiter was granted is to be looked at before it is told.
    void add_admission(detail::waiter& who);
    /// False: it is not in the queue.
    bool remove_admission(const detail::waiter& who);

    /// The next job, which is in no queue any more. False: there is none.
    bool next(job& j);

    /// In the child of a fork: everything is the parent's.
    void start_anew() noexcept;

private:
    struct place {
        detail::resource* held = nullptr;
        job pending{};  // the call to be made next
        bool queued = false;
        place* next = nullptr;
        place* previous = nullptr;
    };

    void enqueue(place& p);
    void dequeue(place& p);

    stable_array<place> places_;
    place* first_ = nullptr;
    place* last_ = nullptr;
    detail::resource* orphans_ = nullptr;
    detail::waiter* first_admission_ = nullptr;
    detail::waiter* last_admission_ = nullptr;
    std::size_t waiting_ = 0;  // in all three
};

}  // namespace cenote::shell

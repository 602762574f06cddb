// The queues of what is to be done outside the lock.
#include "shell/call_queue.hpp"

#include <utility>

namespace cenote::shell {

using detail::resource;

call_queue::added call_queue::add(const job& call, std::uint64_t& before) {
    place& p = places_[call.slot];
    before = std::exchange(p.pending, call).call;
    if (p.queued) return added::replaced;
    if (p.held != nullptr && p.held->busy) return added::blocked;
    enqueue(p);
    return added::queued;
}

bool call_queue::remove(core::slot_id id) {
    if (!places_[id].queued) return false;
    dequeue(places_[id]);
    return true;
}

void call_queue::enqueue(place& p) {
    p.queued = true;
    p.next = nullptr;
    p.previous = last_;
    (last_ == nullptr ? first_ : last_->next) = &p;
    last_ = &p;
    ++waiting_;
}

void call_queue::dequeue(place& p) {
    p.queued = false;
    (p.previous == nullptr ? first_ : p.previous->next) = p.next;
    (p.next == nullptr ? last_ : p.next->previous) = p.previous;
    --waiting_;
}

void call_queue::add_orphan(resource* r) {
    r->orphan = true;
    if (r->busy) return;  // the thread that is at it sees the mark
    r->next_orphan = std::exchange(orphans_, r);
    ++waiting_;
}

void call_queue::add_admission(detail::waiter& who) {
    who.next = nullptr;
    (last_admission_ == nullptr ? first_admission_ : last_admission_->next) = &who;
    last_admission_ = &who;
    ++waiting_;
}

bool call_queue::remove_admission(const detail::waiter& who) {
    detail::waiter* before = nullptr;
    for (detail::waiter* w = first_admission_; w != nullptr; before = w, w = w->next) {
        if (w != &who) continue;
        (before == nullptr ? first_admission_ : before->next) = w->next;
        if (last_admission_ == w) last_admission_ = before;
        --waiting_;
        return true;
    }
    return false;
}

/// Waiters before connector calls, and these before orphans, which nobody waits for.
bool call_queue::next(job& j) {
    if (first_admission_ != nullptr) {
        j = {.admits = first_admission_};
        remove_admission(*j.admits);
    } else if (first_ != nullptr) {
        place& p = *first_;
        dequeue(p);
        j = p.pending;
    } else if (orphans_ != nullptr) {
        resource* r = std::exchange(orphans_, orphans_->next_orphan);
        --waiting_;
        j = {.which = core::verb::close, .slot = r->slot, .call = 0, .on = r};
    } else {
        return false;
    }
    if (j.on != nullptr) {
        j.on->busy = true;
        j.by = j.on->made_by.get();
    }
    return true;
}

void call_queue::start_anew() noexcept {
    for (std::size_t i = 0; i < places_.size(); ++i) places_[i] = {};
    first_ = last_ = nullptr;
    orphans_ = nullptr;
    first_admission_ = last_admission_ = nullptr;
    waiting_ = 0;
}

}  // namespace cenote::shell

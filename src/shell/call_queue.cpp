// The queues of jobs for outside the lock.
#include "shell/call_queue.hpp"

#include <utility>

namespace cenote::shell {

using detail::resource;

call_queue::added call_queue::add(const job& call, std::uint64_t& before) {
    entry& e = entries_[call.slot];
    before = std::exchange(e.pending, call).call;
    if (e.queued) return added::replaced;
    if (e.resource != nullptr && e.resource->busy) return added::blocked;
    enqueue(e);
    return added::queued;
}

bool call_queue::remove(core::slot_id id) {
    if (!entries_[id].queued) return false;
    dequeue(entries_[id]);
    return true;
}

void call_queue::enqueue(entry& e) {
    e.queued = true;
    e.next = nullptr;
    e.previous = last_;
    (last_ == nullptr ? first_ : last_->next) = &e;
    last_ = &e;
    ++waiting_;
}

void call_queue::dequeue(entry& e) {
    e.queued = false;
    (e.previous == nullptr ? first_ : e.previous->next) = e.next;
    (e.next == nullptr ? last_ : e.next->previous) = e.previous;
    --waiting_;
}

void call_queue::add_orphan(resource* r) {
    r->orphan = true;
    if (r->busy) return;  // added again when its call returns
    orphans_.add(*r);
    ++waiting_;
}

void call_queue::add_check(detail::waiter& who) {
    checks_.add(who);
    ++waiting_;
}

bool call_queue::remove_check(const detail::waiter& who) {
    bool removed = checks_.remove(who);
    if (removed) --waiting_;
    return removed;
}

/// Waiters come before connector calls, and those before orphans, for which no caller waits.
bool call_queue::next(job& j) {
    if (!checks_.empty()) {
        j = {.checks_for = checks_.pop()};
        --waiting_;
    } else if (first_ != nullptr) {
        entry& e = *first_;
        dequeue(e);
        j = e.pending;
    } else if (resource* r = orphans_.pop(); r != nullptr) {
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

void call_queue::restart() noexcept {
    for (std::size_t i = 0; i < entries_.size(); ++i) entries_[i] = {};
    first_ = last_ = nullptr;
    orphans_.clear();
    checks_.clear();
    waiting_ = 0;
}

}  // namespace cenote::shell

// Delivers events to observers.
#include "shell/event_queue.hpp"

#include <new>
#include <utility>

namespace cenote::shell {

namespace {

/// No more events than this are queued.
constexpr std::size_t queued_max = 65'536;

/// The queue that this thread delivers.
constinit thread_local const event_queue* delivering_here = nullptr;

/// Whether this thread is in an observer.
constinit thread_local bool in_observer = false;

}  // namespace

event_queue::event_queue(const std::vector<std::shared_ptr<observer>>& observers) {
    for (const auto& who : observers) {
        listener& l = listeners_.emplace_back(listener{.who = who});
        for (std::size_t i = 0; i < event_kind_count; ++i) {
            l.wants[i] = who->wants(static_cast<event_kind>(i));
            wanted_[i] |= l.wants[i];
            any_ |= l.wants[i];
        }
    }
    if (any_) queued_.reserve(256);
}

bool event_queue::wants_leases() const {
    return wants(event_kind::acquired) || wants(event_kind::released);
}

void event_queue::add(const event& what) noexcept {
    if (!wants(what.kind)) return;
    if (queued_.size() >= queued_max) {
        ++lost_;
        return;
    }
    try {
        queued_.push_back(what);
    } catch (const std::bad_alloc&) {
        ++lost_;  // better than losing the resource it is about
    }
}

bool event_queue::busy() const {
    return delivering_here != this && (delivering_ || !queued_.empty());
}

void event_queue::deliver(pool_lock& keeper_lock) noexcept {
    std::vector<event> batch;
    pool_guard lock(keeper_lock);
    if (delivering_) return;
    delivering_ = true;
    const event_queue* outer = std::exchange(delivering_here, this);
    batch.swap(queued_);
    lock.unlock();
    for (const event& each : batch) tell_listeners(each);
    delivering_here = outer;
    batch.clear();
    lock.lock();
    if (queued_.empty()) batch.swap(queued_);  // keep the larger buffer
    delivering_ = false;
}

void event_queue::restart() noexcept {
    if (parents_.empty()) parents_.swap(queued_);
    queued_.clear();
    delivering_ = false;
    lost_ = 0;
}

void event_queue::deliver_now(const event& what) noexcept {
    if (!wants(what.kind)) return;
    if (in_observer) {
        ++lost_;
        return;
    }
    tell_listeners(what);
}

void event_queue::tell_listeners(const event& what) const noexcept {
    bool outer = std::exchange(in_observer, true);
    for (const listener& each : listeners_) {
        if (!each.wants[static_cast<std::size_t>(what.kind)]) continue;
        try {
            each.who->on_event(what);
        } catch (...) {
            // observer.hpp: the pool ignores exceptions of observers.
            continue;
        }
    }
    in_observer = outer;
}

}  // namespace cenote::shell

// Tells observers what happened.
#include "shell/announcer.hpp"

#include <new>
#include <utility>

namespace cenote::shell {

namespace {

/// More than this many events are not kept for an observer that does not follow.
constexpr std::size_t most_noted = 65'536;

/// Whose observers this thread is telling.
constinit thread_local const announcer* telling_for = nullptr;

/// Whether this thread is in an observer.
constinit thread_local bool in_observer = false;

}  // namespace

announcer::announcer(const std::vector<std::shared_ptr<observer>>& observers) {
    for (const auto& who : observers) {
        listener& l = listeners_.emplace_back(listener{.who = who});
        for (std::size_t i = 0; i < event_kind_count; ++i) {
            l.wants[i] = who->wants(static_cast<event_kind>(i));
            wanted_[i] |= l.wants[i];
            any_ |= l.wants[i];
        }
    }
    if (any_) noted_.reserve(256);
}

bool announcer::wants_leases() const {
    return wants(event_kind::acquired) || wants(event_kind::released);
}

void announcer::note(const event& what) noexcept {
    if (!wants(what.kind)) return;
    if (noted_.size() >= most_noted) {
        ++lost_;
        return;
    }
    try {
        noted_.push_back(what);
    } catch (const std::bad_alloc&) {
        ++lost_;  // better than losing the resource it is about
    }
}

bool announcer::busy() const { return telling_for != this && (telling_ || !noted_.empty()); }

void announcer::tell(pool_lock& keeper_lock) noexcept {
    std::vector<event> batch;
    holding lock(keeper_lock);
    if (telling_) return;
    telling_ = true;
    const announcer* outer = std::exchange(telling_for, this);
    batch.swap(noted_);
    lock.unlock();
    for (const event& each : batch) tell_listeners(each);
    telling_for = outer;
    batch.clear();
    lock.lock();
    if (noted_.empty()) batch.swap(noted_);  // keep the larger buffer
    telling_ = false;
}

void announcer::start_anew() noexcept {
    if (untold_.empty()) untold_.swap(noted_);
    noted_.clear();
    telling_ = false;
    lost_ = 0;
}

void announcer::tell_now(const event& what) noexcept {
    if (!wants(what.kind)) return;
    if (in_observer) {
        ++lost_;
        return;
    }
    tell_listeners(what);
}

void announcer::tell_listeners(const event& what) const noexcept {
    bool outer = std::exchange(in_observer, true);
    for (const listener& each : listeners_) {
        if (!each.wants[static_cast<std::size_t>(what.kind)]) continue;
        try {
            each.who->on_event(what);
        } catch (...) {
            // An observer's trouble is not the pool's: documented in observer.hpp.
            continue;
        }
    }
    in_observer = outer;
}

}  // namespace cenote::shell

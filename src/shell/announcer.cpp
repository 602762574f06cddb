// Tells observers what happened.
#include "shell/announcer.hpp"

#include <new>

namespace cenote::shell {

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
    try {
        noted_.push_back(what);
    } catch (const std::bad_alloc&) {
        // Losing an event is better than losing the resource it is about.
        return;
    }
}

void announcer::tell(std::mutex& keeper_lock) noexcept {
    std::vector<event> batch;
    std::unique_lock lock(keeper_lock);
    if (telling_) return;
    telling_ = true;
    while (!noted_.empty()) {
        batch.swap(noted_);
        lock.unlock();
        for (const event& each : batch) tell_now(each);
        batch.clear();
        lock.lock();
        if (noted_.empty()) batch.swap(noted_);  // keep the larger buffer
    }
    telling_ = false;
}

void announcer::tell_now(const event& what) const noexcept {
    for (const listener& each : listeners_) {
        if (!each.wants[static_cast<std::size_t>(what.kind)]) continue;
        try {
            each.who->on_event(what);
        } catch (...) {
            // An observer's trouble is not the pool's: documented in observer.hpp.
            continue;
        }
    }
}

}  // namespace cenote::shell

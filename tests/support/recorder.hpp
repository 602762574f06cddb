// An observer that records all events.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "cenote/observer.hpp"

namespace support {

class recorder : public cenote::observer {
public:
    recorder() = default;
    /// Subscribes only to these kinds.
    explicit recorder(std::set<cenote::event_kind> kinds) : kinds_(std::move(kinds)) {}

    void on_event(const cenote::event& what) override {
        bool ordered = what.kind != cenote::event_kind::exhausted &&
                       what.kind != cenote::event_kind::loop_blocked;
        if (ordered && inside_.exchange(true)) overlapped_ = true;
        {
            std::lock_guard lock(mutex_);
            seen_.push_back(what);
            if (what.now != nullptr) last_stats_ = *what.now;
        }
        if (ordered) inside_ = false;
        if (then) then(what);
    }
    bool wants(cenote::event_kind kind) const override {
        return kinds_.empty() || kinds_.contains(kind);
    }

    std::vector<cenote::event> seen() const {
        std::lock_guard lock(mutex_);
        return seen_;
    }
    /// The kinds reported about one resource, in order.
    std::vector<cenote::event_kind> life_of(std::uint64_t resource) const {
        std::vector<cenote::event_kind> life;
        for (const auto& e : seen())
            if (e.resource == resource && has_resource(e.kind)) life.push_back(e.kind);
        return life;
    }
    std::size_t count(cenote::event_kind kind) const {
        std::lock_guard lock(mutex_);
        return static_cast<std::size_t>(
            std::ranges::count(seen_, kind, [](const auto& e) { return e.kind; }));
    }
    cenote::stats last_stats() const {
        std::lock_guard lock(mutex_);
        return last_stats_;
    }
    bool overlapped() const { return overlapped_; }

    static bool has_resource(cenote::event_kind kind) {
        using enum cenote::event_kind;
        return kind != exhausted && kind != loop_blocked && kind != nested_acquire &&
               kind != breaker_changed && kind != paused && kind != resumed && kind != closing &&
               kind != closed_pool && kind != waited;  // that one is about an acquire
    }

    /// Called after each event was recorded. Set it before the pool is created.
    std::function<void(const cenote::event&)> then;

private:
    std::set<cenote::event_kind> kinds_;
    mutable std::mutex mutex_;
    std::vector<cenote::event> seen_;
    cenote::stats last_stats_;
    std::atomic<bool> inside_{false};
    std::atomic<bool> overlapped_{false};
};

}  // namespace support

// The four steps of every way into the keeper: lock, ask the machine, unlock, carry out.
#pragma once

#include <utility>

#include "shell/keeper.hpp"

namespace cenote::shell {

/// Around changes of the machine's numbers: the sequence is odd meanwhile. Even again also when the
/// question throws; it does so before anything has changed.
struct keeper::changing {
    explicit changing(std::atomic<std::uint64_t>& sequence)
        : n(sequence), even(sequence.load(std::memory_order_relaxed)) {
        n.store(even + 1, std::memory_order_relaxed);
    }
    ~changing() { n.store(even + 2, std::memory_order_release); }
    changing(const changing&) = delete;
    changing& operator=(const changing&) = delete;

    std::atomic<std::uint64_t>& n;
    std::uint64_t even;
};

template <class Ask>
void keeper::enter(Ask&& ask) noexcept(noexcept(ask(core::instant{}))) {
    errands todo;
    decide(std::forward<Ask>(ask), todo);
    if (todo.any()) carry_out(todo);
}

/// All but the last: what follows is for the caller to carry out.
template <class Ask>
void keeper::decide(Ask&& ask, errands& todo) noexcept(noexcept(ask(core::instant{}))) {
    std::lock_guard lock(mutex_);
    if (is_behind()) [[unlikely]]
        start_anew(todo);
    decide(now(), std::forward<Ask>(ask), todo);
}

/// The same under the lock, in a keeper that is not behind.
template <class Ask>
void keeper::decide(core::instant now, Ask&& ask,
                    errands& todo) noexcept(noexcept(ask(core::instant{}))) {
    changing bracket(sequence_);
    std::forward<Ask>(ask)(now);
    if (anything_to_sort_out()) sort_out(now, todo);
    if (todo.needs_keeper()) add_ref();
}

/// Somebody who joins the line of a crowded pool leaves nothing else to do.
inline bool keeper::anything_to_sort_out() const {
    bool settled = settles_ != machine_.settles();
    return !out_.empty() || settled || settings_.fairness == fairness::bounded || has_jobs() ||
           wake_at() < looked_for_;
}

}  // namespace cenote::shell

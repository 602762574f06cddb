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

template <class Ask>
void keeper::decide(Ask&& ask, errands& todo) noexcept(noexcept(ask(core::instant{}))) {
    holding here(lock);
    if (forks.is_behind()) [[unlikely]]
        start_anew(todo);
    decide(now_in_order(), std::forward<Ask>(ask), todo);
}

template <class Ask>
void keeper::decide(core::instant now, Ask&& ask,
                    errands& todo) noexcept(noexcept(ask(core::instant{}))) {
    changing bracket(sequence);
    ask_machine(now, ask);
    if (anything_to_sort_out()) sort_out(now, todo);
    if (todo.need_keeper()) add_ref();
}

/// Clang does not see that the lock `ask` requires is this one.
template <class Ask>
CENOTE_UNCHECKED_LOCKING void keeper::ask_machine(core::instant now, Ask&& ask) noexcept(
    noexcept(ask(core::instant{}))) {
    std::forward<Ask>(ask)(now);
}

/// A waiter that joins the line of a crowded pool leaves nothing else to do.
inline bool keeper::anything_to_sort_out() const {
    bool settled = settles_ != machine.settles();
    return !out.empty() || settled || fixed.fairness == fairness::bounded || has_jobs() ||
           must_tell_clock();
}

}  // namespace cenote::shell

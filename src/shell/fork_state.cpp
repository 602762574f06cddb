// What becomes of the parent's resources in the child of a fork.
#include "shell/fork_state.hpp"

namespace cenote::shell {

using detail::resource;

void fork_state::disown_all(const core::machine& machine, call_queue& calls) noexcept {
    if (std::exchange(disowned_in_, detail::this_process) == detail::this_process) return;
    resource* last = forsaken_;
    to_forsake_ = nullptr;
    auto disown = [&](resource* r, bool held) {
        resource*& list = held || r->busy ? inherited_ : to_forsake_;
        r->next_orphan = &list == &to_forsake_ && list == nullptr ? last : list;
        list = r;
    };
    for (resource* r = calls.next_orphan(); r != nullptr;) {
        resource* next = r->next_orphan;
        disown(r, false);
        r = next;
    }
    for (core::slot_id id = 0; id < calls.slots(); ++id) {
        resource* r = std::exchange(calls.in(id), nullptr);
        if (r == nullptr) continue;
        disown(r, machine.look(id).state == core::slot_state::leased && !r->orphan);
    }
}

void fork_state::forsake_later(errands& todo) {
    if (to_forsake_ == nullptr) return;
    todo.foreign = std::exchange(to_forsake_, nullptr);
    todo.foreign_end = std::exchange(forsaken_, todo.foreign);
}

void fork_state::has_begun() {
    must_begin_.store(true, std::memory_order_relaxed);
    lives_in_.store(detail::this_process, std::memory_order_release);
}

void fork_state::disinherit(const resource* r) {
    for (resource** at = &inherited_; *at != nullptr; at = &(*at)->next_orphan) {
        if (*at != r) continue;
        *at = r->next_orphan;
        return;
    }
}

}  // namespace cenote::shell

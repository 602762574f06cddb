// What a thread has to do after it has released a keeper's lock.
#pragma once

#include <exception>

#include "cenote/detail/resource.hpp"
#include "shell/linked_list.hpp"

namespace cenote::shell {

struct pending_actions {
    waiter_list to_notify;
    bool wake_workplace = false;
    bool report_to_breaker = false;
    bool make_calls = false;  // on this thread: the pool has no other one left
    bool drop_occupied =
        false;  // the last slot became vacant, and so the reference of all slots goes
    std::exception_ptr
        forgotten;  // a replaced exception of an open: the user's, so it ends unlocked
    detail::resource* foreign = nullptr;  // to be forsaken, up to foreign_end
    detail::resource* foreign_end = nullptr;
    pending_actions* outer = nullptr;  // carried out further up on this stack, for another pool

    /// Waiters are notified without the keeper, which may be gone by then. (A waiter whose resource
    /// before_acquire still has to check keeps the keeper, because the resource is leased.)
    bool need_keeper() const {
        return drop_occupied || make_calls || wake_workplace || report_to_breaker;
    }
    bool any() const { return !to_notify.empty() || need_keeper() || foreign != nullptr; }
};

}  // namespace cenote::shell

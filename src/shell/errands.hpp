// What one thread has to do after it let go of a keeper's lock.
#pragma once

#include <exception>

#include "cenote/detail/resource.hpp"
#include "cenote/detail/waiter.hpp"

namespace cenote::shell {

struct errands {
    detail::waiter* first = nullptr;  // to be notified
    detail::waiter** last = &first;
    bool left_empty = false;              // the last slot became vacant
    bool alone = false;                   // no thread is left to make the calls
    bool summons = false;                 // the workplace has to be told
    bool judges = false;                  // so has the breaker's strategy
    std::exception_ptr forgotten;         // an open error that is the last no longer
    detail::resource* foreign = nullptr;  // to be forsaken, up to the end
    detail::resource* foreign_end = nullptr;
    errands* outer = nullptr;  // further up on this stack, another pool's

    void add(detail::waiter& w) {
        w.next = nullptr;
        *last = &w;
        last = &w.next;
    }
    /// The next waiter, which may be gone once it is notified.
    detail::waiter* pop() {
        detail::waiter* w = first;
        if (w == nullptr) return nullptr;
        first = w->next;
        if (first == nullptr) last = &first;
        return w;
    }
    /// False: it is not among them.
    bool remove(const detail::waiter& gone) {
        for (detail::waiter** w = &first; *w != nullptr; w = &(*w)->next) {
            if (*w != &gone) continue;
            if (last == &gone.next) last = w;
            *w = gone.next;
            return true;
        }
        return false;
    }

    /// Waiters are told without the keeper, which may be gone by then; unless what they got is
    /// still to be looked at, which keeps it.
    bool need_keeper() const { return left_empty || alone || summons || judges; }
    bool any() const { return first != nullptr || need_keeper() || foreign != nullptr; }
};

}  // namespace cenote::shell

// A list in order of arrival, linked through a member of its elements: an element is in at most one
// list of its kind, and adding one needs no memory.
#pragma once

#include "cenote/detail/waiter.hpp"

namespace cenote::shell {

template <class T, T* T::* Next>
class linked_list {
public:
    bool empty() const { return first_ == nullptr; }
    T* first() const { return first_; }

    void add(T& element) {
        element.*Next = nullptr;
        (last_ == nullptr ? first_ : last_->*Next) = &element;
        last_ = &element;
    }
    /// Removes the first element; null if there is none.
    T* pop() {
        T* element = first_;
        if (element == nullptr) return nullptr;
        first_ = element->*Next;
        if (first_ == nullptr) last_ = nullptr;
        return element;
    }
    /// False: it is not in the list.
    bool remove(const T& gone) {
        bool found = false;
        remove_if([&](const T& each) { return &each == &gone; }, [&](T&) { found = true; });
        return found;
    }
    /// Removes each element for which `is_done` is true and passes it to `removed`, which may
    /// destroy it.
    template <class IsDone, class Removed>
    void remove_if(IsDone is_done, Removed removed) {
        T* before = nullptr;
        for (T* each = first_; each != nullptr;) {
            T* next = each->*Next;
            if (is_done(*each)) {
                (before == nullptr ? first_ : before->*Next) = next;
                if (next == nullptr) last_ = before;
                removed(*each);
            } else {
                before = each;
            }
            each = next;
        }
    }
    /// Leaves the elements as they are.
    void clear() { first_ = last_ = nullptr; }

private:
    T* first_ = nullptr;
    T* last_ = nullptr;
};

using waiter_list = linked_list<detail::waiter, &detail::waiter::next>;

}  // namespace cenote::shell

// Before a fork all locks of the library are taken, always in the same order: the list of keepers,
// each keeper, the marks. So in the child, where only the forking thread lives on, nothing was left
// half-done by another one. The handlers neither allocate nor call anybody's code: most children
// only exec.
#include "shell/fork.hpp"

#include <mutex>
#include <new>
#include <pthread.h>

#include "cenote/detail/mark.hpp"
#include "cenote/detail/process.hpp"
#include "shell/keeper.hpp"

namespace cenote::detail {

constinit process_number this_process = 0;

}  // namespace cenote::detail

namespace cenote::shell {

namespace {

struct keeper_list {
    std::mutex mutex;
    fork_watch* first = nullptr;
};
constinit keeper_list all;

CENOTE_UNCHECKED_LOCKING void before() {
    all.mutex.lock();
    for (fork_watch* w = all.first; w != nullptr; w = w->next()) w->of().lock.lock();
    detail::lock_marks();
}

CENOTE_UNCHECKED_LOCKING void after_in_parent() {
    detail::unlock_marks();
    for (fork_watch* w = all.first; w != nullptr; w = w->next()) w->of().lock.unlock();
    all.mutex.unlock();
}

void after_in_child() {
    if (++detail::this_process == detail::no_process) detail::this_process = 0;
    detail::forget_other_marks();
    detail::unlock_marks();
    for (fork_watch* w = all.first; w != nullptr; w = w->next()) w->of().after_fork_in_child();
    all.mutex.unlock();
}

bool are_told() {
    static const bool told = pthread_atfork(before, after_in_parent, after_in_child) == 0;
    return told;
}

// Before main if possible: then handlers that users register later may use pools in the child.
[[maybe_unused]] const bool told_from_the_start = are_told();

}  // namespace

std::mutex& keeper_list_lock() { return all.mutex; }

fork_watch::fork_watch(keeper& of) : of_(of) {
    if (!are_told()) throw std::bad_alloc();
    std::lock_guard lock(all.mutex);
    next_ = all.first;
    if (next_ != nullptr) next_->previous_ = this;
    all.first = this;
}

fork_watch::~fork_watch() {
    std::lock_guard lock(all.mutex);
    (previous_ == nullptr ? all.first : previous_->next_) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
}

}  // namespace cenote::shell

// The fork handlers. Before a fork, all locks of the library are locked in a fixed order: the list
// of keepers, each keeper, the marks. So in the child, where only the forking thread exists, no
// other thread has left anything half-done. The handlers neither allocate nor call users' code:
// most children only exec.
#include "shell/fork.hpp"

#include <mutex>
#include <new>
#include <pthread.h>
#include <vector>

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
    std::vector<keeper*> keepers;
};

/// Never destroyed: pools may be used after static objects are gone. Made by have_handlers(), so
/// that the handlers need not allocate.
keeper_list& all() {
    static auto* list = new keeper_list;
    return *list;
}

CENOTE_UNCHECKED_LOCKING void before() {
    all().mutex.lock();
    for (keeper* k : all().keepers) k->lock.lock();
    detail::lock_marks();
}

CENOTE_UNCHECKED_LOCKING void after_in_parent() {
    detail::unlock_marks();
    for (keeper* k : all().keepers) k->lock.unlock();
    all().mutex.unlock();
}

void after_in_child() {
    if (++detail::this_process == detail::no_process) detail::this_process = 0;
    detail::forget_other_marks();
    detail::unlock_marks();
    for (keeper* k : all().keepers) k->after_fork_in_child();
    all().mutex.unlock();
}

bool have_handlers() {
    static const bool registered =
        (all(), pthread_atfork(before, after_in_parent, after_in_child) == 0);
    return registered;
}

// Before main() if possible: then handlers that users register later may use pools in the child.
[[maybe_unused]] const bool registered_early = have_handlers();

}  // namespace

std::mutex& keeper_list_lock() { return all().mutex; }

void register_keeper(keeper& k) {
    if (!have_handlers()) throw std::bad_alloc();
    std::lock_guard lock(all().mutex);
    all().keepers.push_back(&k);
}

void unregister_keeper(keeper& k) noexcept {
    std::lock_guard lock(all().mutex);
    std::erase(all().keepers, &k);
}

}  // namespace cenote::shell

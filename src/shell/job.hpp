// One job for a thread of the pool, or for its executor.
#pragma once

#include <cstdint>

#include "cenote/detail/process.hpp"
#include "core/machine.hpp"

namespace cenote::detail {
class any_connector;
struct resource;
class waiter;
}  // namespace cenote::detail

namespace cenote::shell {

struct job {
    bool tells_observers = false;
    detail::waiter* checks_for = nullptr;  // before_acquire checks what this waiter was granted
    // Otherwise a connector's call.
    core::verb which{};
    detail::process_number process = detail::this_process;  // in which the job was made
    core::slot_id slot = core::no_slot;
    std::uint64_t call = 0;               // 0: of an orphan, the machine does not expect an answer
    detail::resource* on = nullptr;       // null for open
    detail::any_connector* by = nullptr;  // an open has a reference to it until it ends

    bool is_call() const { return !tells_observers && checks_for == nullptr; }
    bool is_orphans() const { return is_call() && call == 0; }
};

}  // namespace cenote::shell

// One thing to be done on a thread of the pool.
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
    bool tells = false;                // the observers
    detail::waiter* admits = nullptr;  // has before_acquire look at what it is to get
    // Neither: a connector's call.
    core::verb which{};
    detail::process_number process = detail::this_process;  // where it was thought of
    core::slot_id slot = core::no_slot;
    std::uint64_t call = 0;               // 0: an orphan, nobody waits for the answer
    detail::resource* on = nullptr;       // null for open
    detail::any_connector* by = nullptr;  // whose call it is; a begun open keeps it until it ends
};

}  // namespace cenote::shell

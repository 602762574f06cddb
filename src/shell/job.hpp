// One connector call to be made.
#pragma once

#include <cstdint>

#include "core/machine.hpp"

namespace cenote::detail {
struct resource;
}

namespace cenote::shell {

struct job {
    core::verb which{};
    core::slot_id slot = core::no_slot;
    std::uint64_t call = 0;          // 0: an orphan, nobody waits for the answer
    detail::resource* on = nullptr;  // null for open
};

}  // namespace cenote::shell

// Somebody in line, as the keeper sees it: how one waits is up to the wait_ files.
#pragma once

#include <source_location>

#include "cenote/detail/resource.hpp"
#include "cenote/error.hpp"
#include "core/line.hpp"

namespace cenote::shell {

/// Lives with whoever waits (a stack, a coroutine frame) until notify() has been called.
class waiter {
public:
    virtual ~waiter() = default;

    /// The outcome is there. Called once, outside the lock; the waiter may be gone afterwards.
    virtual void notify() noexcept = 0;

    std::source_location site;
    core::waiter_id id{};
    core::instant arrived{};
    core::instant deadline{};
    std::uint64_t ticket = 0;
    detail::resource* got = nullptr;  // null: refused
    errc error{};
    waiter* next = nullptr;  // in a chain of those to be notified
};

}  // namespace cenote::shell

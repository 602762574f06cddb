// Callbacks of C as the pool calls them: a connector, an observer, a breaker.
#pragma once

#include <memory>

#include "c/hosts.hpp"
#include "cenote/breaker.hpp"
#include "cenote/cenote.h"
#include "cenote/observer.hpp"

namespace cenote::c {

/// The callbacks of one connector. With it ends their context; and nobody has its host before,
/// since a call that has outlived its pool may still be under way.
struct told_connector {
    told_connector(const cenote_connector& t, host& a) noexcept : told(t), at(a) {}
    ~told_connector() {
        end(told, at);
        at.give_up();
    }
    static void end(const cenote_connector& told, const host& at) {
        engaged here(at);
        if (told.end != nullptr) told.end(told.context);
    }
    told_connector(const told_connector&) = delete;
    told_connector& operator=(const told_connector&) = delete;

    const cenote_connector told;
    host& at;
};

/// A pool that calls these. What they cannot do, the pool does not ask for. Throws what the pool's
/// constructor throws.
std::unique_ptr<host::resource_pool> make_pool(std::unique_ptr<told_connector> by,
                                               const options& settings);

std::shared_ptr<observer> make_observer(const cenote_observer& told, const host& at);
std::shared_ptr<breaker> make_breaker(const cenote_breaker& told, const host& at);

}  // namespace cenote::c

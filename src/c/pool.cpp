// Pools: made, ended, controlled.
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "c/callbacks.hpp"
#include "c/failure.hpp"
#include "c/hosts.hpp"
#include "c/options.hpp"
#include "c/structs.hpp"
#include "cenote/cenote.h"

namespace {

using cenote::c::guarded;
using cenote::c::host;
using cenote::c::in_callback;
using cenote::c::told_connector;
using cenote::c::visit;
using std::chrono::nanoseconds;

/// A host that is given up again unless it gets its pool.
struct reservation {
    host& place = host::reserve();
    bool kept = false;

    reservation() = default;
    ~reservation() {
        if (!kept) place.give_up();
    }
    reservation(const reservation&) = delete;
    reservation& operator=(const reservation&) = delete;
};

/// From here on `told` ends with what this returns, or has ended.
std::unique_ptr<told_connector> adopt(const cenote_connector& told,
                                      std::optional<reservation>& place) {
    try {
        place.emplace();
        return std::make_unique<told_connector>(told, place->place);
    } catch (...) {
        if (told.end != nullptr) told.end(told.context);
        throw;
    }
}

cenote_code create(const cenote_connector& told, const cenote_options* options, cenote_pool* pool,
                   cenote_failure* why) {
    std::optional<reservation> place;
    std::unique_ptr<told_connector> by = adopt(told, place);
    host& at = place->place;
    try {
        cenote::options settings = cenote::c::read_options(options, at);
        *pool = at.open(cenote::c::make_pool(std::move(by), settings));
    } catch (const cenote::invalid_option&) {
        throw;
    } catch (const std::invalid_argument& e) {
        cenote::c::fill(why, CENOTE_INVALID_ARGUMENT, e.what());
        return CENOTE_INVALID_ARGUMENT;
    }
    place->kept = true;
    return CENOTE_OK;
}

/// Calls `act` with the pool.
template <class Act>
cenote_code with_pool(cenote_pool pool, Act&& act) noexcept {
    visit in(pool);
    if (!in) return in.code();
    return guarded([&] {
        act(in);
        return CENOTE_OK;
    });
}

}  // namespace

extern "C" {

cenote_code cenote_create(const cenote_connector* connector, const cenote_options* options,
                          cenote_pool* pool, cenote_failure* why) {
    if (pool == nullptr || !cenote::c::is_fillable(why)) return CENOTE_INVALID_ARGUMENT;
    *pool = 0;
    cenote_connector told{};
    if (!cenote::c::read_struct(connector, told) || told.open == nullptr) {
        cenote::c::fill(why, CENOTE_INVALID_ARGUMENT, "the connector has no size, or no `open`");
        return CENOTE_INVALID_ARGUMENT;
    }
    return guarded([&] { return create(told, options, pool, why); }, why);
}

cenote_code cenote_destroy(cenote_pool pool, size_t* left) {
    if (left != nullptr) *left = 0;
    return host::destroy(pool, left);
}

cenote_code cenote_close(cenote_pool pool, int64_t timeout, size_t* left) {
    if (left != nullptr) *left = 0;
    visit in(pool);
    if (!in) return in.code();
    in->close();
    bool waits = timeout > 0;
    // The callback that asks for it would have to end first.
    if (waits && in_callback::of(in.where())) return CENOTE_DEADLOCK;
    std::size_t still_out = in->close(nanoseconds{waits ? timeout : 0}, {});
    if (left != nullptr) *left = still_out;
    return CENOTE_OK;
}

cenote_code cenote_wait_ready(cenote_pool pool, int64_t timeout) {
    visit in(pool);
    if (!in) return in.code();
    return guarded([&] {
        if (in->wait_ready(nanoseconds{timeout}, {})) return CENOTE_OK;
        bool closed = in->stats().state == cenote::pool_state::closed;
        return closed ? CENOTE_CLOSED : CENOTE_TIMED_OUT;
    });
}

cenote_code cenote_retire_all(cenote_pool pool) {
    return with_pool(pool, [](visit& in) { in->retire_all(); });
}

cenote_code cenote_suspect_all(cenote_pool pool) {
    return with_pool(pool, [](visit& in) { in->suspect_all(); });
}

cenote_code cenote_resize(cenote_pool pool, uint64_t max) {
    return with_pool(pool, [&](visit& in) { in->resize(max); });
}

cenote_code cenote_pause(cenote_pool pool) {
    return with_pool(pool, [](visit& in) { in->pause(); });
}

cenote_code cenote_resume(cenote_pool pool) {
    return with_pool(pool, [](visit& in) { in->resume(); });
}

cenote_code cenote_activate(cenote_pool pool) {
    return with_pool(pool, [](visit& in) { in->activate(); });
}

cenote_code cenote_deactivate(cenote_pool pool) {
    return with_pool(pool, [](visit& in) { in->deactivate(); });
}

cenote_code cenote_recover(cenote_pool pool, uint64_t probes) {
    return with_pool(pool, [&](visit& in) { in->recover(probes); });
}

cenote_code cenote_retry_after(cenote_pool pool, int64_t* wait) {
    if (wait == nullptr) return CENOTE_INVALID_ARGUMENT;
    *wait = 0;
    return with_pool(pool, [&](visit& in) { *wait = in->retry_after().count(); });
}

}  // extern "C"

// The functions for pools: create, destroy, control.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "c/callbacks.hpp"
#include "c/failure.hpp"
#include "c/options.hpp"
#include "c/pool_entries.hpp"
#include "c/structs.hpp"
#include "cenote/cenote.h"

namespace {

using cenote::c::c_connector;
using cenote::c::callback_scope;
using cenote::c::guarded;
using cenote::c::pool_entry;
using cenote::c::pool_pin;
using std::chrono::nanoseconds;

void end(const cenote_connector& callbacks) {
    if (callbacks.end != nullptr) callbacks.end(callbacks.context);
}

/// Takes ownership of the callbacks: their `end` is called by the result, or here before a throw.
std::unique_ptr<c_connector> adopt(const cenote_connector& callbacks) {
    try {
        return std::make_unique<c_connector>(callbacks);
    } catch (...) {
        end(callbacks);
        throw;
    }
}

cenote_code create(const cenote_connector& callbacks, const cenote_options* options,
                   cenote_pool* pool, cenote_failure* why) {
    std::unique_ptr<c_connector> by = adopt(callbacks);
    pool_entry& entry = by->entry;
    bool waits = false;
    try {
        cenote::options settings = cenote::c::read_options(options, entry);
        waits = settings.warm_up == cenote::warm_up::wait;
        *pool = entry.publish(cenote::c::make_pool(std::move(by), settings));
        return CENOTE_OK;
    } catch (const cenote::invalid_option&) {
        throw;
    } catch (const std::invalid_argument& e) {
        cenote::c::fill(why, CENOTE_INVALID_ARGUMENT, e.what());
        return CENOTE_INVALID_ARGUMENT;
    } catch (const std::system_error& e) {
        if (!waits || e.code() != std::errc::timed_out) throw;
        cenote::c::fill(why, CENOTE_OPEN_FAILED, e.what());
        return CENOTE_OPEN_FAILED;
    }
}

/// Calls `act` with the pinned pool.
template <class Act>
cenote_code with_pool(cenote_pool pool, Act&& act) noexcept {
    pool_pin pin(pool);
    if (!pin) return pin.code();
    callback_scope scope(pin.entry());
    return guarded([&] {
        act(pin);
        return CENOTE_OK;
    });
}

}  // namespace

extern "C" {

cenote_code cenote_create(const cenote_connector* connector, const cenote_options* options,
                          cenote_pool* pool, cenote_failure* why) {
    if (pool != nullptr) *pool = 0;
    if (!cenote::c::is_fillable(why)) why = nullptr, pool = nullptr;
    cenote_connector callbacks{};
    if (!cenote::c::read_struct(connector, callbacks) || callbacks.open == nullptr) {
        cenote::c::fill(why, CENOTE_INVALID_ARGUMENT,
                        "the connector has an invalid size, unknown members or no `open`");
        return CENOTE_INVALID_ARGUMENT;
    }
    return guarded(
        [&]() -> cenote_code {
            if (pool != nullptr) return create(callbacks, options, pool, why);
            end(callbacks);
            return CENOTE_INVALID_ARGUMENT;
        },
        why);
}

cenote_code cenote_destroy(cenote_pool pool, size_t* left) {
    if (left != nullptr) *left = 0;
    return pool_entry::destroy(pool, left);
}

cenote_code cenote_close(cenote_pool pool, int64_t timeout, size_t* left) {
    if (left != nullptr) *left = 0;
    pool_pin pin(pool);
    if (!pin) return pin.code();
    pin->close();
    bool waits = timeout > 0;
    if (waits && callback_scope::is_inside(pin.entry())) return CENOTE_DEADLOCK;
    // If a callback of another pool calls this, requests with leases may be queued behind it.
    if (waits) cenote::c::run_queued_callbacks();
    std::size_t still_out = pin->close(nanoseconds{waits ? timeout : 0}, {});
    if (left != nullptr) *left = still_out;
    return CENOTE_OK;
}

cenote_code cenote_wait_ready(cenote_pool pool, int64_t timeout) {
    pool_pin pin(pool);
    if (!pin) return pin.code();
    callback_scope scope(pin.entry());
    return guarded([&] {
        if (pin->wait_ready(nanoseconds{timeout}, {})) return CENOTE_OK;
        if (pin->closed()) return CENOTE_CLOSED;
        return pin->open_error() == nullptr ? CENOTE_TIMED_OUT : CENOTE_OPEN_FAILED;
    });
}

cenote_code cenote_retire_all(cenote_pool pool) {
    return with_pool(pool, [](pool_pin& pin) { pin->retire_all(); });
}

cenote_code cenote_suspect_all(cenote_pool pool) {
    return with_pool(pool, [](pool_pin& pin) { pin->suspect_all(); });
}

cenote_code cenote_resize(cenote_pool pool, uint64_t max) {
    return with_pool(pool, [&](pool_pin& pin) { pin->resize(max); });
}

cenote_code cenote_pause(cenote_pool pool) {
    return with_pool(pool, [](pool_pin& pin) { pin->pause(); });
}

cenote_code cenote_resume(cenote_pool pool) {
    return with_pool(pool, [](pool_pin& pin) { pin->resume(); });
}

cenote_code cenote_activate(cenote_pool pool) {
    return with_pool(pool, [](pool_pin& pin) { pin->activate(); });
}

cenote_code cenote_deactivate(cenote_pool pool) {
    return with_pool(pool, [](pool_pin& pin) { pin->deactivate(); });
}

cenote_code cenote_recover(cenote_pool pool, uint64_t probes) {
    return with_pool(pool, [&](pool_pin& pin) { pin->recover(probes); });
}

cenote_code cenote_retry_after(cenote_pool pool, int64_t* wait) {
    if (wait == nullptr) return CENOTE_INVALID_ARGUMENT;
    *wait = 0;
    return with_pool(pool, [&](pool_pin& pin) { *wait = pin->retry_after().count(); });
}

}  // extern "C"

// Pools: made, ended, controlled.
#include <chrono>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "c/callbacks.hpp"
#include "c/failure.hpp"
#include "c/hosts.hpp"
#include "c/options.hpp"
#include "c/structs.hpp"
#include "cenote/cenote.h"

namespace {

using cenote::c::engaged;
using cenote::c::guarded;
using cenote::c::host;
using cenote::c::told_connector;
using cenote::c::visit;
using std::chrono::nanoseconds;

void end(const cenote_connector& told) {
    if (told.end != nullptr) told.end(told.context);
}

/// From here on `told` ends with what this returns, or has ended.
std::unique_ptr<told_connector> adopt(const cenote_connector& told) {
    host* place = nullptr;
    try {
        place = &host::reserve();
        return std::make_unique<told_connector>(told, *place);
    } catch (...) {
        if (place != nullptr) place->give_up();
        end(told);
        throw;
    }
}

cenote_code create(const cenote_connector& told, const cenote_options* options, cenote_pool* pool,
                   cenote_failure* why) {
    std::unique_ptr<told_connector> by = adopt(told);
    host& at = by->at;
    bool waits = false;
    try {
        cenote::options settings = cenote::c::read_options(options, at);
        waits = settings.warm_up == cenote::warm_up::wait;
        *pool = at.open(cenote::c::make_pool(std::move(by), settings));
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

/// Calls `act` with the pool.
template <class Act>
cenote_code with_pool(cenote_pool pool, Act&& act) noexcept {
    visit in(pool);
    if (!in) return in.code();
    engaged here(in.where());  // others may be called back from within
    return guarded([&] {
        act(in);
        return CENOTE_OK;
    });
}

}  // namespace

extern "C" {

cenote_code cenote_create(const cenote_connector* connector, const cenote_options* options,
                          cenote_pool* pool, cenote_failure* why) {
    if (pool != nullptr) *pool = 0;
    if (!cenote::c::is_fillable(why)) why = nullptr, pool = nullptr;
    cenote_connector told{};
    if (!cenote::c::read_struct(connector, told) || told.open == nullptr) {
        cenote::c::fill(why, CENOTE_INVALID_ARGUMENT,
                        "the connector cannot be read, or has no `open`");
        return CENOTE_INVALID_ARGUMENT;
    }
    return guarded(
        [&]() -> cenote_code {
            if (pool != nullptr) return create(told, options, pool, why);
            end(told);
            return CENOTE_INVALID_ARGUMENT;
        },
        why);
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
    if (waits && engaged::of(in.where())) return CENOTE_DEADLOCK;
    // So would those whose callback comes after another one that runs on this thread, if it is that
    // one which asks: they have leases.
    if (waits) cenote::c::answer_those_waiting_here();
    std::size_t still_out = in->close(nanoseconds{waits ? timeout : 0}, {});
    if (left != nullptr) *left = still_out;
    return CENOTE_OK;
}

cenote_code cenote_wait_ready(cenote_pool pool, int64_t timeout) {
    visit in(pool);
    if (!in) return in.code();
    engaged here(in.where());
    return guarded([&] {
        if (in->wait_ready(nanoseconds{timeout}, {})) return CENOTE_OK;
        if (in->closed()) return CENOTE_CLOSED;
        return in->open_error() == nullptr ? CENOTE_TIMED_OUT : CENOTE_OPEN_FAILED;
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

// The functions for leases: acquire, use, release.
#include <chrono>
#include <cstddef>
#include <exception>
#include <new>
#include <source_location>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "c/cells.hpp"
#include "c/failure.hpp"
#include "c/options.hpp"
#include "c/pool_entries.hpp"
#include "cenote/cenote.h"

namespace {

using cenote::lease;
using cenote::c::callback_scope;
using cenote::c::cell;
using cenote::c::guarded;
using cenote::c::handle;
using cenote::c::item;
using cenote::c::pool_entry;
using cenote::c::pool_pin;
using std::chrono::nanoseconds;

/// C has no std::source_location; cenote_acquire_options.task names call sites.
constexpr std::source_location no_site{};

/// Stores the lease and sets the outputs.
[[gnu::always_inline]] inline cenote_code finish(lease<item> held, cenote_lease* into,
                                                 void** resource) noexcept {
    if (resource != nullptr) *resource = held->resource;
    *into = cell::store(std::move(held), cell::holder::this_thread);
    return CENOTE_OK;
}

cenote_code code_of(const std::error_code& error) noexcept {
    if (error.category() == cenote::pool_category()) return static_cast<cenote_code>(error.value());
    return error == std::errc::not_enough_memory ? CENOTE_NO_MEMORY : CENOTE_SYSTEM;
}

/// The failure of a lease that its holder discards, for the circuit breaker.
const std::exception_ptr& holders_failure() noexcept {
    // Never destroyed: threads may need it after the destruction of static objects.
    alignas(std::exception_ptr) static std::byte storage[sizeof(std::exception_ptr)];
    static const auto* failure = ::new (static_cast<void*>(storage))
        std::exception_ptr(std::make_exception_ptr(std::runtime_error("discarded by its holder")));
    return *failure;
}

/// Sets the outputs to zero. False if `lease` is null.
bool clear_outputs(cenote_lease* lease, void** resource) noexcept {
    if (resource != nullptr) *resource = nullptr;
    if (lease == nullptr) return false;
    *lease = 0;
    return true;
}

[[gnu::noinline]] cenote_code acquire_slowly(pool_entry& entry, std::int64_t timeout,
                                             cenote_lease* into, void** resource) noexcept {
    clear_outputs(into, resource);
    callback_scope scope(entry);
    pool_entry::pool_type& pool = entry.pool();
    return guarded([&] {
        std::error_code error;
        auto held = timeout == CENOTE_DEFAULT_TIMEOUT
                        ? pool.acquire({}, error, no_site)
                        : pool.acquire({.timeout = nanoseconds{timeout}}, error, no_site);
        return held ? finish(std::move(held), into, resource) : code_of(error);
    });
}

/// Ends a lease with `how(lease)`.
template <class How>
cenote_code end(cenote_lease number, How&& how) noexcept {
    cell* place = cell::find(number);
    if (place == nullptr) return CENOTE_INVALID_HANDLE;
    std::uint64_t generation = handle::of(number).generation;
    cenote_code code{};
    lease<item> held = place->end(generation, code);
    if (code != CENOTE_OK) return code;
    if (cell::is_last(generation)) [[unlikely]]
        held.discard();
    else how(held);
    return CENOTE_OK;
}

}  // namespace

extern "C" {

[[gnu::flatten]] cenote_code cenote_acquire(cenote_pool pool, int64_t timeout, cenote_lease* lease,
                                            void** resource) {
    pool_pin pin(pool);
    if (!pin || lease == nullptr) [[unlikely]] {
        return clear_outputs(lease, resource) ? pin.code() : CENOTE_INVALID_ARGUMENT;
    }
    // The fast lane first, before anything that only the slow way needs.
    auto& gate = cenote::detail::pool_access::of(pin.pool());
    if (auto* r = gate.take(no_site, cenote::detail::this_thread())) [[likely]]
        return finish(cenote::detail::lease_maker::of<item>(r), lease, resource);
    return acquire_slowly(pin.entry(), timeout, lease, resource);
}

cenote_code cenote_acquire_with(cenote_pool pool, const cenote_acquire_options* options,
                                cenote_lease* lease, void** resource, cenote_failure* why) {
    cenote::acquire_options how;
    if (!cenote::c::is_fillable(why)) why = nullptr, lease = nullptr;
    if (!clear_outputs(lease, resource) || !cenote::c::read_acquire_options(options, how)) {
        cenote::c::fill(why, CENOTE_INVALID_ARGUMENT, cenote_text(CENOTE_INVALID_ARGUMENT));
        return CENOTE_INVALID_ARGUMENT;
    }
    pool_pin pin(pool);
    if (!pin) {
        cenote::c::fill(why, pin.code(), cenote_text(pin.code()));
        return pin.code();
    }
    callback_scope scope(pin.entry());
    return guarded(
        [&] {
            if (why != nullptr) return finish(pin->acquire(how, no_site), lease, resource);
            std::error_code error;
            auto held = pin->acquire(how, error, no_site);
            return held ? finish(std::move(held), lease, resource) : code_of(error);
        },
        why);
}

cenote_code cenote_try_acquire(cenote_pool pool, cenote_lease* lease, void** resource) {
    if (!clear_outputs(lease, resource)) return CENOTE_INVALID_ARGUMENT;
    pool_pin pin(pool);
    if (!pin) return pin.code();
    callback_scope scope(pin.entry());
    return guarded([&] {
        auto held = pin->try_acquire(no_site);
        return held ? finish(std::move(held), lease, resource) : CENOTE_EMPTY;
    });
}

cenote_code cenote_resource(cenote_lease lease, void** resource) {
    if (resource == nullptr) return CENOTE_INVALID_ARGUMENT;
    *resource = nullptr;
    cell* place = cell::find(lease);
    if (place == nullptr) return CENOTE_INVALID_HANDLE;
    return place->resource(handle::of(lease).generation, resource);
}

[[gnu::flatten]] cenote_code cenote_release(cenote_lease lease) {
    return end(lease, [](auto& held) { held.give_back(); });
}

cenote_code cenote_discard(cenote_lease lease) {
    return end(lease, [](auto& held) { held.discard(); });
}

cenote_code cenote_mark_dirty(cenote_lease lease) {
    cell* place = cell::find(lease);
    if (place == nullptr) return CENOTE_INVALID_HANDLE;
    return place->mark_dirty(handle::of(lease).generation);
}

cenote_code cenote_release_as(cenote_lease lease, cenote_verdict verdict) {
    switch (verdict) {
        case CENOTE_KEEP: return cenote_release(lease);
        case CENOTE_RESET:
        case CENOTE_RESET_LATER:
            return end(lease, [](auto& held) {
                held.mark_dirty();
                held.give_back();
            });
        case CENOTE_DISCARD:
        case CENOTE_FINAL: return end(lease, [](auto& held) { held.discard(holders_failure()); });
        case CENOTE_SUSPECT: return end(lease, [](auto& held) { held.discard_and_suspect(); });
        default: return CENOTE_INVALID_ARGUMENT;
    }
}

cenote_code cenote_detach(cenote_lease lease, void** resource) {
    if (resource == nullptr) return CENOTE_INVALID_ARGUMENT;
    *resource = nullptr;
    cell* place = cell::find(lease);
    if (place == nullptr) return CENOTE_INVALID_HANDLE;
    cenote_code code{};
    auto held = place->end(handle::of(lease).generation, code);
    if (code != CENOTE_OK) return code;
    *resource = held->resource;
    static_cast<void>(held.detach());
    return CENOTE_OK;
}

}  // extern "C"

// Leases: taken, used and given back, by threads.
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
#include "c/hosts.hpp"
#include "c/options.hpp"
#include "cenote/cenote.h"

namespace {

using cenote::lease;
using cenote::c::cell;
using cenote::c::engaged;
using cenote::c::guarded;
using cenote::c::handle;
using cenote::c::host;
using cenote::c::item;
using cenote::c::visit;
using std::chrono::nanoseconds;

/// C has no such places; who wants to be found says so in `task`.
constexpr std::source_location nowhere{};

[[gnu::always_inline]] inline cenote_code lend(lease<item> held, cenote_lease* into,
                                               void** resource) noexcept {
    if (resource != nullptr) *resource = held->resource;
    *into = cell::keep(std::move(held), cell::holder::this_thread);
    return CENOTE_OK;
}

cenote_code code_of(const std::error_code& error) noexcept {
    if (error.category() == cenote::pool_category()) return static_cast<cenote_code>(error.value());
    return error == std::errc::not_enough_memory ? CENOTE_NO_MEMORY : CENOTE_SYSTEM;
}

/// Whatever it was: the circuit breaker counts it, and nobody else looks.
const std::exception_ptr& a_failure() noexcept {
    // Never destroyed: threads may come after static objects are gone.
    alignas(std::exception_ptr) static std::byte room[sizeof(std::exception_ptr)];
    static const auto* it = ::new (static_cast<void*>(room))
        std::exception_ptr(std::make_exception_ptr(std::runtime_error("discarded by its holder")));
    return *it;
}

/// What there is to be filled in, zero until it is.
bool begin(cenote_lease* lease, void** resource) noexcept {
    if (resource != nullptr) *resource = nullptr;
    if (lease == nullptr) return false;
    *lease = 0;
    return true;
}

[[gnu::noinline]] cenote_code wait(host& at, std::int64_t timeout, cenote_lease* into,
                                   void** resource) noexcept {
    begin(into, resource);
    engaged here(at);  // others may be called back from within
    host::resource_pool& pool = at.pool();
    return guarded([&] {
        std::error_code error;
        auto held = timeout == CENOTE_DEFAULT_TIMEOUT
                        ? pool.acquire({}, error, nowhere)
                        : pool.acquire({.timeout = nanoseconds{timeout}}, error, nowhere);
        return held ? lend(std::move(held), into, resource) : code_of(error);
    });
}

/// Ends a lease and has `how` say what becomes of the resource.
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
    visit in(pool);
    if (!in || lease == nullptr) [[unlikely]] {
        bool has_room = begin(lease, resource);
        return has_room ? in.code() : CENOTE_INVALID_ARGUMENT;
    }
    // What is at hand, without even preparing for anything else.
    auto& gate = cenote::detail::pool_access::of(in.pool());
    if (auto* r = gate.take(nowhere, cenote::detail::this_thread())) [[likely]]
        return lend(cenote::detail::lease_maker::of<item>(r), lease, resource);
    return wait(in.where(), timeout, lease, resource);
}

cenote_code cenote_acquire_with(cenote_pool pool, const cenote_wish* wish, cenote_lease* lease,
                                void** resource, cenote_failure* why) {
    cenote::acquire_options how;
    if (!cenote::c::is_fillable(why)) why = nullptr, lease = nullptr;
    if (!begin(lease, resource) || !cenote::c::read_wish(wish, how)) {
        cenote::c::fill(why, CENOTE_INVALID_ARGUMENT, cenote_text(CENOTE_INVALID_ARGUMENT));
        return CENOTE_INVALID_ARGUMENT;
    }
    visit in(pool);
    if (!in) {
        cenote::c::fill(why, in.code(), cenote_text(in.code()));
        return in.code();
    }
    engaged here(in.where());
    return guarded(
        [&] {
            if (why != nullptr) return lend(in->acquire(how, nowhere), lease, resource);
            std::error_code error;
            auto held = in->acquire(how, error, nowhere);
            return held ? lend(std::move(held), lease, resource) : code_of(error);
        },
        why);
}

cenote_code cenote_try_acquire(cenote_pool pool, cenote_lease* lease, void** resource) {
    if (!begin(lease, resource)) return CENOTE_INVALID_ARGUMENT;
    visit in(pool);
    if (!in) return in.code();
    engaged here(in.where());
    return guarded([&] {
        auto held = in->try_acquire(nowhere);
        return held ? lend(std::move(held), lease, resource) : CENOTE_EMPTY;
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
        case CENOTE_FINAL: return end(lease, [](auto& held) { held.discard(a_failure()); });
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

// Names and sentences for codes and other enumerations.
#include "cenote/breaker.hpp"
#include "cenote/cenote.h"
#include "cenote/error.hpp"
#include "cenote/event.hpp"
#include "cenote/stats.hpp"
#include "cenote/version.hpp"

namespace {

constexpr const char* unknown = "unknown";

/// The name of the enumerator with this value.
template <class Cpp, class C>
const char* name_of(C value, std::size_t count) noexcept {
    auto number = static_cast<std::size_t>(value);
    return number < count ? cenote::to_string(static_cast<Cpp>(value)) : unknown;
}

}  // namespace

extern "C" {

const char* cenote_word(cenote_code code) {
    if (code >= CENOTE_TIMED_OUT && code <= CENOTE_DEADLOCK)
        return cenote::to_string(static_cast<cenote::errc>(code));
    switch (code) {
        case CENOTE_OK: return "ok";
        case CENOTE_EMPTY: return "empty";
        case CENOTE_INVALID_ARGUMENT: return "invalid_argument";
        case CENOTE_INVALID_OPTION: return "invalid_option";
        case CENOTE_INVALID_HANDLE: return "invalid_handle";
        case CENOTE_STALE_HANDLE: return "stale_handle";
        case CENOTE_NO_MEMORY: return "no_memory";
        case CENOTE_SYSTEM: return "system";
        case CENOTE_INTERNAL: return "internal";
        default: return unknown;
    }
}

const char* cenote_text(cenote_code code) {
    switch (code) {
        case CENOTE_OK: return "success";
        case CENOTE_TIMED_OUT: return "timed out waiting for a resource";
        case CENOTE_CLOSED: return "the pool is closed";
        case CENOTE_UNAVAILABLE: return "the circuit breaker is inactive";
        case CENOTE_LINE_FULL: return "too many waiters";
        case CENOTE_SHED: return "refused early because the line is overloaded";
        case CENOTE_CANCELED: return "the wait was canceled";
        case CENOTE_OPEN_FAILED: return "no resource could be opened";
        case CENOTE_DEADLOCK: return "the wait would never end";
        case CENOTE_EMPTY: return "no resource is ready";
        case CENOTE_INVALID_ARGUMENT: return "an argument is null or invalid";
        case CENOTE_INVALID_OPTION: return "an option is invalid";
        case CENOTE_INVALID_HANDLE: return "not a handle of this kind";
        case CENOTE_STALE_HANDLE: return "the handle was released, destroyed or completed";
        case CENOTE_NO_MEMORY: return "out of memory";
        case CENOTE_SYSTEM: return "a system call failed";
        case CENOTE_INTERNAL: return "a bug in the library";
        default: return "unknown code";
    }
}

const char* cenote_event_word(cenote_event_kind kind) {
    return name_of<cenote::event_kind>(kind, cenote::event_kind_count);
}

const char* cenote_retire_word(cenote_retire_reason reason) {
    return name_of<cenote::retire_reason>(reason, cenote::retire_reason_count);
}

const char* cenote_breaker_word(cenote_breaker_state state) {
    return name_of<cenote::breaker_state>(state, CENOTE_RECOVERING + 1);
}

const char* cenote_version(void) { return CENOTE_VERSION_STRING; }

}  // extern "C"

// Words and sentences.
#include "cenote/breaker.hpp"
#include "cenote/cenote.h"
#include "cenote/error.hpp"
#include "cenote/event.hpp"
#include "cenote/stats.hpp"

namespace {

constexpr const char* unknown = "unknown";

/// The word of C++ for the same number, if it is one.
template <class Cpp, class C>
const char* word(C value, std::size_t count) noexcept {
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
        case CENOTE_OK: return "it went well";
        case CENOTE_TIMED_OUT: return "the time is up, and no resource was free";
        case CENOTE_CLOSED: return "the pool is closed";
        case CENOTE_UNAVAILABLE: return "the circuit breaker is open";
        case CENOTE_LINE_FULL: return "too many wait already";
        case CENOTE_SHED: return "refused early, because the line has been late for too long";
        case CENOTE_CANCELED: return "the wait was canceled";
        case CENOTE_OPEN_FAILED: return "no resource could be opened";
        case CENOTE_DEADLOCK: return "the wait could never end";
        case CENOTE_EMPTY: return "nothing is ready now";
        case CENOTE_INVALID_ARGUMENT: return "an argument is null, or not one of its values";
        case CENOTE_INVALID_OPTION: return "an option breaks its rule";
        case CENOTE_INVALID_HANDLE: return "this was never a handle of that kind";
        case CENOTE_STALE_HANDLE: return "what the handle stood for has ended";
        case CENOTE_NO_MEMORY: return "there is no memory";
        case CENOTE_SYSTEM: return "the system refuses it";
        case CENOTE_INTERNAL: return "a bug in the library";
        default: return "not a code of cenote's";
    }
}

const char* cenote_event_word(cenote_event_kind kind) {
    return word<cenote::event_kind>(kind, cenote::event_kind_count);
}

const char* cenote_retire_word(cenote_retire_reason reason) {
    return word<cenote::retire_reason>(reason, cenote::retire_reason_count);
}

const char* cenote_breaker_word(cenote_breaker_state state) {
    return word<cenote::breaker_state>(state, CENOTE_RECOVERING + 1);
}

const char* cenote_version(void) { return CENOTE_VERSION; }

}  // extern "C"

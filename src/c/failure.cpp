// Converts exceptions to codes and texts.
#include "c/failure.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <system_error>

#include "c/structs.hpp"
#include "cenote/options.hpp"

namespace cenote::c {

static_assert(static_cast<int>(errc::timed_out) == CENOTE_TIMED_OUT);
static_assert(static_cast<int>(errc::closed) == CENOTE_CLOSED);
static_assert(static_cast<int>(errc::unavailable) == CENOTE_UNAVAILABLE);
static_assert(static_cast<int>(errc::line_full) == CENOTE_LINE_FULL);
static_assert(static_cast<int>(errc::shed) == CENOTE_SHED);
static_assert(static_cast<int>(errc::canceled) == CENOTE_CANCELED);
static_assert(static_cast<int>(errc::open_failed) == CENOTE_OPEN_FAILED);
static_assert(static_cast<int>(errc::deadlock) == CENOTE_DEADLOCK);
static_assert(errc_count == CENOTE_DEADLOCK);

namespace {

/// Handles a text that a callback has not terminated.
std::string_view text_in(const cenote_failure& f) noexcept {
    return {f.text, ::strnlen(f.text, sizeof f.text)};
}

std::string text_for(std::string_view name, const cenote_failure& why) {
    std::string_view given = text_in(why);
    if (!given.empty()) return std::string(given);
    std::string text(name);
    text += " failed";
    if (why.cause != 0) text += " with " + std::to_string(why.cause);
    return text;
}

}  // namespace

callback_error::callback_error(int verdict, const cenote_failure& why, std::string_view name)
    : std::runtime_error(text_for(name, why)), verdict_(verdict), cause_(why.cause) {}

bool is_fillable(const cenote_failure* why) noexcept {
    return why == nullptr || is_known_size<cenote_failure>(why->size);
}

void fill(cenote_failure* why, cenote_code code, std::string_view text, std::int32_t cause,
          std::int64_t retry_after) noexcept {
    if (why == nullptr) return;
    cenote_failure failure{};
    failure.code = code;
    failure.cause = cause;
    failure.retry_after = retry_after;
    std::memcpy(failure.text, text.data(), std::min(text.size(), sizeof failure.text - 1));
    write_struct(failure, why);
}

std::int32_t cause_of(const std::exception_ptr& error) noexcept {
    if (error == nullptr) return 0;
    try {
        std::rethrow_exception(error);
    } catch (const callback_error& e) {
        return e.cause();
    } catch (...) {
        return 0;  // thrown by a callback written in C++, which has no cause
    }
}

cenote_code describe_exception(cenote_failure* why) noexcept {
    try {
        throw;
    } catch (const pool_error& e) {
        cenote_code code = code_of(static_cast<errc>(e.code().value()));
        fill(why, code, e.what(), why == nullptr ? 0 : cause_of(e.cause()),
             e.retry_after().count());
        return code;
    } catch (const callback_error& e) {
        fill(why, CENOTE_OPEN_FAILED, e.what(), e.cause());
        return CENOTE_OPEN_FAILED;
    } catch (const invalid_option& e) {
        fill(why, CENOTE_INVALID_OPTION, e.what());
        return CENOTE_INVALID_OPTION;
    } catch (const std::bad_alloc&) {
        fill(why, CENOTE_NO_MEMORY, cenote_text(CENOTE_NO_MEMORY));
        return CENOTE_NO_MEMORY;
    } catch (const std::system_error& e) {
        fill(why, CENOTE_SYSTEM, e.what(), e.code().value());
        return CENOTE_SYSTEM;
    } catch (const std::exception& e) {
        fill(why, CENOTE_INTERNAL, e.what());
        return CENOTE_INTERNAL;
    } catch (...) {
        fill(why, CENOTE_INTERNAL, cenote_text(CENOTE_INTERNAL));
        return CENOTE_INTERNAL;
    }
}

}  // namespace cenote::c

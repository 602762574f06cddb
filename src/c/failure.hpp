// What goes wrong, as C is told: codes, and texts for who wants them.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string_view>

#include "cenote/cenote.h"
#include "cenote/error.hpp"

namespace cenote::c {

/// What a callback said when it failed.
class callback_error : public std::runtime_error {
public:
    callback_error(int verdict, const cenote_failure& said, std::string_view who);

    int verdict() const noexcept { return verdict_; }
    std::int32_t cause() const noexcept { return cause_; }

private:
    int verdict_;
    std::int32_t cause_;
};

inline cenote_code code_of(errc e) noexcept { return static_cast<cenote_code>(e); }

/// The code for what is being thrown, and all of it for `why`, unless that is null. For catch
/// blocks.
cenote_code describe_exception(cenote_failure* why) noexcept;

/// What a callback gave as its cause, if this is what a callback said; else zero.
std::int32_t cause_of(const std::exception_ptr& error) noexcept;

/// Fills in `why`, unless it is null. Texts that are too long are cut.
void fill(cenote_failure* why, cenote_code code, std::string_view text, std::int32_t cause = 0,
          std::int64_t retry_after = 0) noexcept;

/// Whether `why` can be filled in: it is null, or has a size.
bool is_fillable(const cenote_failure* why) noexcept;

/// Runs `call`, which returns a code. Nothing it throws gets further than this.
template <class Call>
cenote_code guarded(Call&& call, cenote_failure* why = nullptr) noexcept {
    try {
        return call();
    } catch (...) {
        return describe_exception(why);
    }
}

}  // namespace cenote::c

// Converts exceptions to codes and cenote_failure.
#pragma once

#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string_view>

#include "cenote/cenote.h"
#include "cenote/error.hpp"

namespace cenote::c {

/// A failed callback.
class callback_error : public std::runtime_error {
public:
    /// `name`: the callback, for the text if `why` has none.
    callback_error(int verdict, const cenote_failure& why, std::string_view name);

    int verdict() const noexcept { return verdict_; }
    std::int32_t cause() const noexcept { return cause_; }

private:
    int verdict_;
    std::int32_t cause_;
};

inline cenote_code code_of(errc e) noexcept { return static_cast<cenote_code>(e); }

/// The code of the current exception. Fills in `why` unless it is null. For catch blocks.
cenote_code describe_exception(cenote_failure* why) noexcept;

/// The `cause` of a callback_error; zero for any other exception and for null.
std::int32_t cause_of(const std::exception_ptr& error) noexcept;

/// Fills in `why` unless it is null. Texts that are too long are truncated.
void fill(cenote_failure* why, cenote_code code, std::string_view text, std::int32_t cause = 0,
          std::int64_t retry_after = 0) noexcept;

/// Whether `why` is null or has a valid size.
bool is_fillable(const cenote_failure* why) noexcept;

/// Returns the code that `call` returns, or the code of its exception.
template <class Call>
cenote_code guarded(Call&& call, cenote_failure* why = nullptr) noexcept {
    try {
        return call();
    } catch (...) {
        return describe_exception(why);
    }
}

}  // namespace cenote::c

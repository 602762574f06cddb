// Texts of exceptions and of call sites, for messages and logs.
#pragma once

#include <algorithm>
#include <exception>
#include <source_location>
#include <string>
#include <string_view>

namespace cenote::vocabulary {

/// The message of an exception. Requires that `error` is not null.
inline std::string text_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "an exception that is not a std::exception";
    }
}

/// "orders.cpp:88", or "unknown call site" for a caller through the C API.
inline std::string text_of(const std::source_location& site) {
    if (site.line() == 0) return "unknown call site";
    std::string_view file = site.file_name();
    file.remove_prefix(std::min(file.size(), file.find_last_of('/') + 1));
    return std::string(file) + ':' + std::to_string(site.line());
}

}  // namespace cenote::vocabulary

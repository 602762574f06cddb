// What several rooms say of the same things: of exceptions, and of places in the program.
#pragma once

#include <algorithm>
#include <exception>
#include <source_location>
#include <string>
#include <string_view>

namespace cenote::words {

/// What an exception says. Requires that there is one.
inline std::string text_of(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        return e.what();
    } catch (...) {
        return "an exception that is not a std::exception";
    }
}

/// "orders.cpp:88"; "somebody" if the place is not known, as in C.
inline std::string text_of(const std::source_location& site) {
    if (site.line() == 0) return "somebody";
    std::string_view file = site.file_name();
    file.remove_prefix(std::min(file.size(), file.find_last_of('/') + 1));
    return std::string(file) + ':' + std::to_string(site.line());
}

}  // namespace cenote::words

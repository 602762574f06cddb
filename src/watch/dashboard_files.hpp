// The files of the dashboard's page, embedded in the library by cmake/EmbedFiles.cmake.
#pragma once

#include <span>
#include <string_view>

namespace cenote::detail {

struct embedded_file {
    std::string_view path;
    std::string_view type;
    std::string_view etag;
    std::string_view body;
};

std::span<const embedded_file> dashboard_files() noexcept;

}  // namespace cenote::detail

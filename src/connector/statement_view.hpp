// The text and the parameters of a statement, owned by the caller of a blocking operation.
#pragma once

#include <span>
#include <string_view>

#include "cenote/sql.hpp"

namespace cenote::connector_detail {

/// Takes the place of sql::bound_statement, which owns both, where the operation does not outlive
/// its caller.
class statement_view {
public:
    statement_view(std::string_view text, std::span<const sql::parameter> parameters) noexcept
        : text_(text), parameters_(parameters) {}

    std::string_view text() const noexcept { return text_; }
    std::span<const sql::parameter> parameters() const noexcept { return parameters_; }

private:
    std::string_view text_;
    std::span<const sql::parameter> parameters_;
};

}  // namespace cenote::connector_detail

// How a connector that blocks is called, on whichever thread.
#pragma once

#include <cstddef>

#include "shell/workplace.hpp"

namespace cenote::shell {

class work_blocking : public workplace {
public:
    explicit work_blocking(keeper& home) : home_(home) {}

    void call(const job& j) noexcept final;
    std::size_t calls_here() const final;

protected:
    keeper& home_;
};

}  // namespace cenote::shell

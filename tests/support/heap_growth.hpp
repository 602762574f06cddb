// How much memory a piece of a test needs at most.
#pragma once

#include <algorithm>
#include <cstddef>
#include <malloc.h>

namespace support {

/// How much larger the heap was than at the beginning, at most, as far as look() saw it. Not the
/// memory of the process, which depends on the system's pages and counters.
class heap_growth {
public:
    void look() {
        if (std::size_t now = bytes(); now > before_) most_ = std::max(most_, now - before_);
    }
    std::size_t most() const { return most_; }

private:
    static std::size_t bytes() {
        const struct mallinfo2 all = ::mallinfo2();
        return all.uordblks + all.hblkhd;
    }

    std::size_t before_ = bytes();
    std::size_t most_ = 0;
};

}  // namespace support

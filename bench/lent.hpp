// What a peer lends, so that all of them are used alike.
#pragma once

#include "subjects.hpp"

namespace cenote::bench {

/// Gives its thing back at its end. `Home` knows how.
template <class Home>
class lent {
public:
    lent(Home& home, thing* held) noexcept : home_(home), held_(held) {}
    lent(const lent&) = delete;
    lent& operator=(const lent&) = delete;
    ~lent() { home_.put(held_); }

    thing* operator->() const noexcept { return held_; }

private:
    Home& home_;
    thing* held_;
};

}  // namespace cenote::bench

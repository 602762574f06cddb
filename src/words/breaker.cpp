// The strategy that counts.
#include "cenote/breaker.hpp"

#include <array>
#include <string>
#include <utility>

namespace cenote {

namespace {

void require_some(std::uint64_t value, const char* name) {
    if (value == 0) throw invalid_option(name, "0", "must be at least 1");
}

}  // namespace

const char* to_string(breaker_state state) noexcept {
    constexpr std::array words = {"active", "inactive", "recovering"};
    return words[static_cast<std::size_t>(state)];
}

threshold_breaker::threshold_breaker(const settings& s) : settings_(s) {
    require_some(s.failures, "threshold_breaker.failures");
    require_some(s.probes, "threshold_breaker.probes");
    require_some(s.successes, "threshold_breaker.successes");
    if (s.cool_down <= std::chrono::nanoseconds::zero())
        throw invalid_option("threshold_breaker.cool_down",
                             std::to_string(s.cool_down.count()) + " ns",
                             "must be greater than zero");
}

/// What was counted in one state says nothing in another.
void threshold_breaker::look(breaker_state present) {
    if (std::exchange(seen_, present) != present) count_ = 0;
}

std::optional<breaker_move> threshold_breaker::succeeded(breaker_state present) {
    look(present);
    if (present == breaker_state::active) count_ = 0;
    if (present != breaker_state::recovering || ++count_ < settings_.successes) return std::nullopt;
    return breaker_move{.to = breaker_state::active};
}

std::optional<breaker_move> threshold_breaker::failed(breaker_state present) {
    look(present);
    if (present == breaker_state::inactive) return std::nullopt;
    bool enough = present == breaker_state::recovering || ++count_ >= settings_.failures;
    if (!enough) return std::nullopt;
    return breaker_move{.to = breaker_state::inactive, .cool_down = settings_.cool_down};
}

std::optional<breaker_move> threshold_breaker::cooled_down() {
    return breaker_move{.to = breaker_state::recovering, .probes = settings_.probes};
}

}  // namespace cenote

// The two circuit breaker strategies: failures in a row, and the rate of failures.
#include "cenote/breaker.hpp"

#include <array>
#include <string>
#include <utility>

namespace cenote {

namespace {

void require_not_zero(std::uint64_t value, const char* name) {
    if (value == 0) throw invalid_option(name, "0", "must be at least 1");
}

void require_positive(std::chrono::nanoseconds value, const char* name) {
    if (value > std::chrono::nanoseconds::zero()) return;
    throw invalid_option(name, std::to_string(value.count()) + " ns", "must be greater than zero");
}

}  // namespace

const char* to_string(breaker_state state) noexcept {
    constexpr std::array names = {"active", "inactive", "recovering"};
    return names[static_cast<std::size_t>(state)];
}

threshold_breaker::threshold_breaker(const settings& s) : settings_(s) {
    require_not_zero(s.failures, "threshold_breaker.failures");
    require_not_zero(s.probes, "threshold_breaker.probes");
    require_not_zero(s.successes, "threshold_breaker.successes");
    require_positive(s.cool_down, "threshold_breaker.cool_down");
}

/// Counts are valid for one state only.
void threshold_breaker::look(breaker_state present) {
    if (std::exchange(seen_, present) != present) count_ = 0;
}

std::optional<breaker_move> threshold_breaker::succeeded(const breaker_report& what) {
    look(what.state);
    if (what.state == breaker_state::active) count_ = 0;
    if (what.state != breaker_state::recovering) return std::nullopt;
    count_ += what.count;
    if (count_ < settings_.successes) return std::nullopt;
    return breaker_move{.to = breaker_state::active};
}

std::optional<breaker_move> threshold_breaker::failed(const breaker_report& what) {
    look(what.state);
    if (what.state == breaker_state::inactive) return std::nullopt;
    bool enough = what.state == breaker_state::recovering || ++count_ >= settings_.failures;
    if (!enough) return std::nullopt;
    return breaker_move{.to = breaker_state::inactive, .cool_down = settings_.cool_down};
}

std::optional<breaker_move> threshold_breaker::cooled_down(const breaker_report& what) {
    look(what.state);  // each recovery counts from zero
    return breaker_move{.to = breaker_state::recovering, .probes = settings_.probes};
}

rate_breaker::rate_breaker(const settings& s) : settings_(s) {
    if (!(s.rate > 0 && s.rate <= 1))
        throw invalid_option("rate_breaker.rate", std::to_string(s.rate),
                             "must be greater than 0 and at most 1");
    require_not_zero(s.calls, "rate_breaker.calls");
    require_not_zero(s.probes, "rate_breaker.probes");
    require_not_zero(s.successes, "rate_breaker.successes");
    require_positive(s.window / static_cast<std::int64_t>(part_count), "rate_breaker.window");
    require_positive(s.cool_down, "rate_breaker.cool_down");
}

/// Counts are valid for one state only.
void rate_breaker::look(breaker_state present) {
    if (std::exchange(seen_, present) == present) return;
    recovered_ = 0;
    parts_ = {};
}

/// The part of the window for this time. Replaces a part that has left the window.
rate_breaker::part& rate_breaker::part_at(std::chrono::steady_clock::time_point at) {
    auto number =
        at.time_since_epoch() / (settings_.window / static_cast<std::int64_t>(part_count));
    part& p = parts_[static_cast<std::size_t>(number) % part_count];
    if (p.number != number) p = {.number = number};
    return p;
}

bool rate_breaker::too_many_failed(std::chrono::steady_clock::time_point at) const {
    auto now = at.time_since_epoch() / (settings_.window / static_cast<std::int64_t>(part_count));
    std::uint64_t failures = 0;
    std::uint64_t all = 0;
    for (const part& p : parts_) {
        if (p.number < 0 || p.number + static_cast<std::int64_t>(part_count) <= now) continue;
        failures += p.failed;
        all += p.failed + p.succeeded;
    }
    return all >= settings_.calls &&
           static_cast<double>(failures) >= settings_.rate * static_cast<double>(all);
}

std::optional<breaker_move> rate_breaker::succeeded(const breaker_report& what) {
    look(what.state);
    if (what.state == breaker_state::active) part_at(what.at).succeeded += what.count;
    if (what.state != breaker_state::recovering) return std::nullopt;
    recovered_ += what.count;
    if (recovered_ < settings_.successes) return std::nullopt;
    return breaker_move{.to = breaker_state::active};
}

std::optional<breaker_move> rate_breaker::failed(const breaker_report& what) {
    look(what.state);
    if (what.state == breaker_state::inactive) return std::nullopt;
    if (what.state == breaker_state::active) {
        ++part_at(what.at).failed;
        if (!too_many_failed(what.at)) return std::nullopt;
    }
    return breaker_move{.to = breaker_state::inactive, .cool_down = settings_.cool_down};
}

std::optional<breaker_move> rate_breaker::cooled_down(const breaker_report& what) {
    look(what.state);
    return breaker_move{.to = breaker_state::recovering, .probes = settings_.probes};
}

}  // namespace cenote

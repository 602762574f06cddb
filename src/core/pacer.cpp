// The pacer: rate, width, backoff and scouts.
#include "core/pacer.hpp"

#include <algorithm>

namespace cenote::core {

namespace {

constexpr std::size_t minus(std::size_t a, std::size_t b) { return a > b ? a - b : 0; }

}  // namespace

pacer::pacer(const backoff& spacing, std::size_t opening_max, const open_rate& rate)
    : spacing_(spacing), opening_max_(opening_max) {
    if (rate.per_second == std::uint64_t{forever}) return;
    auto count = static_cast<std::int64_t>(rate.per_second);
    token_every_ = (duration{std::chrono::seconds{1}} + duration{count - 1}) / count;
    burst_ = token_every_ * static_cast<std::int64_t>(rate.burst - 1);
}

void pacer::started(instant now) {
    widen_at_ = after(now, patience);
    fresh_at_ = never;
    if (fruitless_since_ == never) fruitless_since_ = now;
    if (token_every_ == duration{}) return;
    token_at_ = std::max(token_at_, now) + token_every_;
}

/// When the next token is available.
instant pacer::next_token() const { return token_at_ == long_ago ? token_at_ : token_at_ - burst_; }

std::size_t pacer::tokens(instant now) const {
    constexpr auto any = ~std::size_t{0};
    if (token_every_ == duration{}) return any;
    if (next_token() > now) return 0;
    instant from = std::max(token_at_, now) - burst_;
    return static_cast<std::size_t>((now - from) / token_every_) + 1;
}

shortage missing(const supply& s) {
    std::size_t coming = s.opening + s.returning;
    std::size_t present = s.idle + s.leased + coming;
    std::size_t spares = minus(s.idle + coming, s.wanted);
    return {.of_minimum = minus(s.min_size, present),
            .of_spares = minus(s.wanted, coming + s.idle) + minus(s.min_idle, spares)};
}

std::size_t pacer::width(instant now, const supply& s) {
    bool alone = s.leased + s.idle + s.returning == 0;
    if (alone && well()) return opening_max_;
    if (s.opening > 0 && now >= widen_at_) {
        width_ = std::min(width_ * 2, opening_max_);
        widen_at_ = after(now, patience);
    }
    return width_;
}

/// What is missing now. Waiters rely on returning resources for `patience` only.
shortage pacer::lacking(instant now, const supply& s) {
    shortage lack = missing(s);
    bool relying = !lack.any() && s.wanted > s.opening + s.idle;
    if (!relying) {
        relying_since_ = never;
        return lack;
    }
    if (relying_since_ == never) relying_since_ = now;
    if (now >= after(relying_since_, patience)) lack.of_spares = 1;
    else retry_at_ = after(relying_since_, patience);
    return lack;
}

std::size_t pacer::allowed(instant now, const supply& s) {
    if (s.opening == 0) fruitless_since_ = never;
    scout_at_ = next_scout(s);
    if (std::size_t n = regular(now, s)) return n;
    return scout_at_ <= now && room(s) > 0 ? 1 : 0;
}

std::size_t pacer::room(const supply& s) const {
    return std::min(minus(s.max, s.total), minus(opening_max_, s.opening));
}

void pacer::begun(instant now, const supply& s) {
    fresh_at_ = now;
    scout_at_ = next_scout(s);
}

/// When opens hang, the next one is due after the same delay as after a failure.
instant pacer::next_scout(const supply& s) const {
    bool hangs = s.wanted > s.idle && s.opening > 0 && fresh_at_ != never;
    bool can_make_way = s.opening > 1 && s.strays < most_strays && s.total < s.max;
    bool possible = room(s) > 0 || can_make_way;
    if (!hangs || !possible) return never;
    duration too_long = std::max(suspicious, 4 * usual_);
    return std::max({after(fresh_at_, spacing_.cap_waiting), after(fruitless_since_, too_long),
                     due(true), next_token()});
}

std::size_t pacer::regular(instant now, const supply& s) {
    held_back_ = false;
    retry_at_ = never;
    if (s.total >= s.max) {
        relying_since_ = never;  // no room for another open
        return 0;
    }
    shortage lack = lacking(now, s);
    if (!lack.any()) {
        width_ = 1;
        return 0;
    }
    std::size_t most = room(s);
    if (most == 0) return 0;
    if (instant at = due(s.wanted > 0); at > now) {
        retry_at_ = at;
        return 0;
    }
    if (tokens(now) == 0) {
        retry_at_ = next_token();
        return 0;
    }
    // A missing minimum is opened as fast as opening_max allows, unless opens fail at present.
    std::size_t lanes = minus(width(now, s), s.opening);
    std::size_t all = std::max(lack.of_minimum, lack.of_spares);
    std::size_t paced =
        well() ? std::max(lack.of_minimum, std::min(lack.of_spares, lanes)) : std::min(all, lanes);
    held_back_ = std::min(paced, most) < std::min(all, most);
    return std::min({paced, most, tokens(now)});
}

void pacer::succeeded(instant now, instant called_at, bool more_missing) {
    usual_ = now - called_at;
    fruitless_since_ = now;
    if (called_at > last_failure_) failures_ = 0;
    if (more_missing) width_ = std::min(width_ * 2, opening_max_);
}

void pacer::failed(instant now, instant called_at, dice& random) {
    width_ = 1;
    failed_call_ = std::max(failed_call_, called_at);
    if (called_at <= last_failure_) return;
    failures_ = std::min<std::uint32_t>(failures_ + 1, 30);
    last_failure_ = now;
    permille_ = 800 + static_cast<std::int64_t>(random.below(401));
}

instant pacer::due(bool is_awaited) const {
    if (failures_ == 0) return long_ago;
    duration cap = is_awaited ? spacing_.cap_waiting : spacing_.cap_idle;
    duration delay = std::min(spacing_.first, cap);
    for (std::uint32_t i = 1; i < failures_ && delay < cap; ++i)
        delay = delay > cap / 2 ? cap : delay * 2;
    // From the beginning of the failed open: a slow failure needs no further delay.
    return after(failed_call_, delay / 1000 * permille_);
}

}  // namespace cenote::core

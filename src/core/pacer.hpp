// When and how many resources may be opened: one question, answered in one place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cenote/options.hpp"
#include "core/dice.hpp"
#include "core/instant.hpp"

namespace cenote::core {

/// The numbers the decision is made from.
struct supply {
    std::size_t max = 0;
    std::size_t min_size = 0;
    std::size_t min_idle = 0;
    std::size_t total = 0;  // everything not vacant, and the strays
    std::size_t idle = 0;   // without the expiring ones
    std::size_t leased = 0;
    std::size_t opening = 0;
    std::size_t returning = 0;  // probing or resetting: will be free soon
    std::size_t wanted = 0;     // waiters, and one for a try_acquire that found nothing
    std::size_t strays = 0;     // opens that made way and still have time to end
};

/// What is missing: how many opens would be right now if nothing held them back.
struct shortage {
    std::size_t of_minimum = 0;  // to reach min_size
    std::size_t of_spares = 0;   // for waiters and for min_idle

    bool any() const { return of_minimum + of_spares > 0; }
};

shortage missing(const supply& s);

/// Spaces and widens opens.
///
/// - While resources circulate, opens start one at a time: a burst that the present ones will have
///   served before the first open ends must not double the pool. The number in flight doubles when
///   an open succeeds and more are still missing, and when none has ended for `patience`.
/// - With nothing else alive, `opening_max` may be in flight at once.
/// - Resources that are being probed or reset count as on their way back, for `patience`. If
/// somebody
///   still waits for them then, one more is opened.
/// - After a failure, attempts wait for the backoff. Its random part is drawn once per failure.
/// - Every open takes a token from the bucket (`open_rate`).
/// - An open may hang that began while the other side was away, and go on hanging when it is back.
///   So while somebody waits and the opens in flight take suspiciously long, a scout is sent every
///   `cap_waiting`: one more open, for which the youngest has to make way if there is no room. The
///   older ones stay: they may just be slow. What made way is a stray: until it ends, or its time
///   does, it takes up room, and there are only a few of them.
class pacer {
public:
    static constexpr duration patience = std::chrono::milliseconds{50};
    /// With so many strays none makes way.
    static constexpr std::size_t most_strays = 8;
    /// No open is suspicious before this.
    static constexpr duration suspicious = std::chrono::seconds{1};

    pacer(const backoff& spacing, std::size_t opening_max, const open_rate& rate = {});

    /// How many opens may start now. Each that does must be told with started().
    std::size_t allowed(instant now, const supply& s);

    void started(instant now);
    /// An open that was started is being made.
    void begun(instant now, const supply& s);
    /// `called_at`: when it began. One that began before the last failure says nothing about it.
    void succeeded(instant now, instant called_at, bool more_missing);
    /// `called_at`: when the failed open began. Several that fail together are one failure.
    void failed(instant now, instant called_at, dice& random);

    /// When allowed() may give more without anything else happening; `never` if only an event can
    /// change its answer.
    instant next_chance() const { return std::min(held_back_ ? widen_at_ : retry_at_, scout_at_); }

    /// After allowed() gave none: whether a scout is due, and an open has to make way for it.
    bool scout_is_due(instant now) const { return scout_at_ <= now; }
    /// There is none that could; ask again when one has begun.
    void hold_scouts() { scout_at_ = fresh_at_ = never; }

    /// Whoever opens from now on has not failed yet.
    void forget_failures() { failures_ = 0; }

    /// No failure since the last success?
    bool well() const { return failures_ == 0; }

    /// When the next attempt after a failure is due.
    instant due(bool somebody_waits) const;

private:
    std::size_t regular(instant now, const supply& s);
    instant next_scout(const supply& s) const;
    std::size_t room(const supply& s) const;
    std::size_t width(instant now, const supply& s);
    std::size_t tokens(instant now) const;
    instant next_token() const;
    shortage lacking(instant now, const supply& s);

    backoff spacing_;
    std::size_t opening_max_;
    duration token_every_{};       // zero: as many as you like
    duration burst_{};             // how far ahead of its time the last token may be taken
    instant token_at_ = long_ago;  // when the next token would be due if they came one by one
    std::size_t width_ = 1;        // opens in flight at once while resources circulate
    instant widen_at_ = never;
    instant relying_since_ = never;  // since when waiters rely on what is on its way back alone
    std::uint32_t failures_ = 0;     // since the last success
    instant last_failure_ = long_ago;
    instant failed_call_ = long_ago;   // when the last one began that has failed
    std::int64_t permille_ = 1000;     // the random part of the backoff
    instant retry_at_ = never;         // set while the backoff holds an open back
    bool held_back_ = false;           // the width holds an open back
    instant fresh_at_ = never;         // when the last open began; never: it has not yet
    instant fruitless_since_ = never;  // since when opens are in flight and none has ended well
    duration usual_{};                 // what the last good open took
    instant scout_at_ = never;
};

}  // namespace cenote::core

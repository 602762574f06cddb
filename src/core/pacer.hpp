// The pacer: when and how many resources may be opened.
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
    std::size_t total = 0;  // slots that are not vacant, and strays
    std::size_t idle = 0;   // without expiring ones
    std::size_t leased = 0;
    std::size_t opening = 0;
    std::size_t returning = 0;  // probing or resetting: free soon
    std::size_t wanted = 0;     // waiters, and one for a try_acquire that found nothing
    std::size_t strays = 0;     // opens that made way and have not ended
};

/// How many opens would be right now if nothing held them back.
struct shortage {
    std::size_t of_minimum = 0;  // to reach min_size
    std::size_t of_spares = 0;   // for waiters and for min_idle

    bool any() const { return of_minimum + of_spares > 0; }
};

shortage missing(const supply& s);

/// Limits the rate and the number of opens.
///
/// - While resources circulate, opens start one at a time: a burst that the present resources serve
///   before the first open ends must not double the pool. The number in flight doubles when an open
///   succeeds and more are missing, and when no open has ended for `patience`.
/// - Without any resource, `opening_max` opens may be in flight at once.
/// - Resources that are being probed or reset count as returning for `patience`. If a caller still
///   waits for them then, one more resource is opened.
/// - After a failure, opens wait for the backoff. Its random part is drawn once per failure.
/// - Each open takes a token from the bucket (`open_rate`).
/// - An open that began while the server was away may hang after the server has returned. So while
///   callers wait and the opens in flight take suspiciously long, a *scout* starts every
///   `cap_waiting`: one more open, for which the youngest open makes way if there is no room. Older
///   opens stay, because they may just be slow. An open that made way is a *stray*: it takes up
///   room until it ends or its deadline passes, and there are only a few strays.
class pacer {
public:
    static constexpr duration patience = std::chrono::milliseconds{50};
    /// The largest number of strays.
    static constexpr std::size_t most_strays = 8;
    /// An open is not suspicious before it has taken this long.
    static constexpr duration suspicious = std::chrono::seconds{1};

    pacer(const backoff& spacing, std::size_t opening_max, const open_rate& rate = {});

    /// How many opens may start now. started() must be called for each that does.
    std::size_t allowed(instant now, const supply& s);

    void started(instant now);
    /// A worker makes an open that was started.
    void begun(instant now, const supply& s);
    /// `called_at`: when the open began. An open that began before the last failure ends no
    /// backoff.
    void succeeded(instant now, instant called_at, bool more_missing);
    /// `called_at`: when the open began. Opens that fail together count as one failure.
    void failed(instant now, instant called_at, dice& random);

    /// When allowed() may return more without another event; `never` if only an event can change
    /// its answer.
    instant next_chance() const { return std::min(held_back_ ? widen_at_ : retry_at_, scout_at_); }

    /// After allowed() returned zero: whether a scout is due, for which an open has to make way.
    bool scout_is_due(instant now) const { return scout_at_ <= now; }
    /// No open can make way; scouts wait until one has begun.
    void hold_scouts() { scout_at_ = fresh_at_ = never; }

    /// Forgets the failures of the last connector or generation.
    void forget_failures() { failures_ = 0; }

    /// Whether no open failed since the last success.
    bool well() const { return failures_ == 0; }

    /// When the next attempt after a failure is due.
    instant due(bool is_awaited) const;

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
    duration token_every_{};       // zero: no limit
    duration burst_{};             // how far ahead of its time a token may be taken
    instant token_at_ = long_ago;  // when the next token is due
    std::size_t width_ = 1;        // opens in flight at once while resources circulate
    instant widen_at_ = never;
    instant relying_since_ = never;  // since when waiters rely on returning resources alone
    std::uint32_t failures_ = 0;     // since the last success
    instant last_failure_ = long_ago;
    instant failed_call_ = long_ago;   // when the last failed open began
    std::int64_t permille_ = 1000;     // the random part of the backoff
    instant retry_at_ = never;         // set while the backoff holds an open back
    bool held_back_ = false;           // the width holds an open back
    instant fresh_at_ = never;         // when the last open began; never: it has not begun
    instant fruitless_since_ = never;  // since when opens are in flight and none has succeeded
    duration usual_{};                 // the duration of the last successful open
    instant scout_at_ = never;
};

}  // namespace cenote::core

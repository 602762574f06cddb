// The settings of a pool: what each one means, its default, and when to change it.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cenote {

class breaker;
class manual_clock;
class observer;

/// Switches a limit off: a duration or a count that is never reached.
///
///     cenote::options{.idle_timeout = cenote::forever, .max_uses = cenote::forever}
struct forever_t {
    template <class Rep, class Period>
    constexpr operator std::chrono::duration<Rep, Period>() const noexcept {
        return std::chrono::duration<Rep, Period>::max();
    }
    // Exactly this type: otherwise nanoseconds{forever} would count the number as its ticks.
    template <std::same_as<std::uint64_t> Count>
    constexpr operator Count() const noexcept {
        return std::numeric_limits<Count>::max();
    }
};
inline constexpr forever_t forever{};

/// What the constructor does about the minimum (`min_size`, `min_idle`).
enum class warm_up : std::uint8_t {
    background,  ///< Starts opening it and returns at once.
    wait,        ///< Returns when it is open, or throws the first open error.
    none,        ///< Opens nothing before the first acquire.
};

/// Which idle resource is lent next.
enum class order : std::uint8_t {
    lifo,  ///< The most recently used: a small hot set works, the rest shrinks away.
    fifo,  ///< The least recently used: the work is spread evenly.
};

/// Who gets a resource that becomes free while somebody waits.
enum class fairness : std::uint8_t {
    strict,   ///< The head of the line, always.
    bounded,  ///< A newcomer may overtake while the head has waited less than `bypass_for`.
    turns,    ///< The head; but a thread that comes again at once has its own back a few times.
};

/// How failed opens are spaced: so long after the beginning of the one that failed comes the next.
/// The delay doubles from `first` up to `cap_waiting` while anyone waits and up to `cap_idle`
/// otherwise, each time varied by ±20 % so that pools do not march in step. While anyone waits and
/// opens hang, another one is tried every `cap_waiting`, too.
struct backoff {
    std::chrono::nanoseconds first = std::chrono::milliseconds{20};
    std::chrono::nanoseconds cap_waiting = std::chrono::milliseconds{200};
    std::chrono::nanoseconds cap_idle = std::chrono::seconds{5};

    bool operator==(const backoff&) const = default;
};

/// What a failed open means for the callers that wait.
enum class open_errors : std::uint8_t {
    retry,      ///< Callers keep waiting, and opens are tried again under `backoff`. A caller whose
                ///< deadline passes is told the last error (pool_error::cause).
    fail_fast,  ///< The first caller in line is refused at once with `open_failed` and the error.
                ///< If nothing is open or being opened, all callers in line are.
};

/// How important an acquire is. Who waits is served by priority, and by arrival among equals; but
/// a priority is only a head start (`options::head_start`), so nobody starves.
enum class priority : std::uint8_t {
    reserved,  ///< Before everybody else, for health checks and administration: `line_max` and
               ///< `shed` do not apply to it.
    high,
    normal,
    low,
};
inline constexpr std::size_t priority_count = 4;

/// Refuses those who have waited longest while the line is late (CoDel): if for a whole `interval`
/// nobody was served who had waited less than `target`, then as long as that lasts everybody who
/// has waited twice the target is refused with `shed`. So under any load those who are served
/// waited at most twice the target, and the pool works for them instead of for people who have
/// given up.
struct shed {
    std::chrono::nanoseconds target = forever;  ///< `forever`: off.
    std::chrono::nanoseconds interval = std::chrono::milliseconds{100};

    bool operator==(const shed&) const = default;
};

/// A bucket of tokens, one for each open: it holds `burst` of them and gets `per_second` new ones
/// every second, evenly. So in any t seconds at most burst + per_second × t opens begin.
struct open_rate {
    std::uint64_t per_second = forever;
    std::uint64_t burst = 1;

    bool operator==(const open_rate&) const = default;
};

/// Settings of one pool; an aggregate for designated initialisers. Invalid values are refused by
/// the pool's constructor with `invalid_option`.
///
///     cenote::pool<session> pool{connect, {.name = "orders", .max = 32, .min_idle = 4}};
struct options {
    /// Names the pool in every error, event, thread and metric: 1 to 100 printable characters of
    /// ASCII, without `"` and `\`. Metrics and dashboard number pools whose names are equal.
    std::string name = "pool";

    /// Hard cap on everything open, being opened or being closed, at every instant. Raise it when
    /// `stats().waiting` stays above zero while the server still has capacity.
    std::size_t max = 10;

    /// Floor for the total: opened at start (see `warm_up`), refilled after losses, never swept
    /// below.
    std::size_t min_size = 0;

    /// Ready spares kept on top of the leased ones, as far as `max` allows. For bursts that cannot
    /// wait for an open.
    std::size_t min_idle = 0;

    /// What the constructor does about the minimum.
    cenote::warm_up warm_up = cenote::warm_up::background;

    /// One absolute deadline for a whole acquire: waiting, opening, probing, resetting. Each call
    /// can bring its own.
    std::chrono::nanoseconds acquire_timeout = std::chrono::seconds{5};

    /// How long one connector call may take. At its deadline the call is abandoned: its result is
    /// closed whenever it comes, and the slot goes on without it.
    std::chrono::nanoseconds open_timeout = std::chrono::seconds{10};
    std::chrono::nanoseconds probe_timeout = std::chrono::seconds{1};
    std::chrono::nanoseconds reset_timeout = std::chrono::seconds{1};
    std::chrono::nanoseconds close_timeout = std::chrono::seconds{1};

    /// Opens in flight at once; never more than the waiters and the missing minimum need. Any
    /// number will do: more than `max` is no limit at all.
    std::size_t opening_max = 4;

    /// How many opens may begin per second, whatever they are for. Protects a server that has just
    /// come back from all its clients at once. `per_second` is a whole number up to 1 000 000.
    cenote::open_rate open_rate = {};

    /// Idle longer than this is retired, down to `min_size` and `min_idle`.
    std::chrono::nanoseconds idle_timeout = std::chrono::minutes{5};

    /// Age limit, drawn once at birth from [max_lifetime × (1 − lifetime_jitter), max_lifetime] so
    /// that resources opened together do not die together.
    std::chrono::nanoseconds max_lifetime = std::chrono::minutes{30};
    double lifetime_jitter = 0.1;

    /// Retire a resource after so many leases.
    std::uint64_t max_uses = forever;

    /// Sweeps retire exactly what is due, but do not run more often than this.
    std::chrono::nanoseconds sweep_interval = std::chrono::seconds{1};

    /// At acquire, probe a resource that has been idle at least this long; zero probes always (and
    /// costs the fast lane), `forever` never. With a connector that cannot probe the default has no
    /// effect, and other times than `forever` are refused.
    std::chrono::nanoseconds probe_after_idle = std::chrono::seconds{5};

    /// Probe at release, before the resource can be lent again. Costs the fast lane. Refused if the
    /// connector cannot probe.
    bool probe_on_release = false;

    /// Probe idle resources at this interval in the background, one at a time. Refused if the
    /// connector cannot probe.
    std::chrono::nanoseconds heartbeat = forever;

    /// A lease that is held longer is reported (`leak_suspected`), with its call site and task;
    /// once, and then again each time it has taken twice as long. It is not taken away: nothing
    /// could make its holder stop. On the fast lane nobody looks at a clock, so the time counts
    /// from the next sweep (`sweep_interval`), or from a half of this if that is sooner.
    std::chrono::nanoseconds leak_after = std::chrono::seconds{30};

    /// A resource whose connector said `verdict::reset_later` is reset by the pool when it has been
    /// idle so long: until then its next use may do that at a lower price, but what the last one
    /// left behind (a lock, a temporary table) stays. On the fast lane it may take twice as long.
    /// Zero resets it at once, as `verdict::reset` does; `forever` leaves it to the next use.
    std::chrono::nanoseconds reset_after = std::chrono::milliseconds{50};

    /// Which idle resource is lent next. `fifo` costs the fast lane.
    cenote::order order = cenote::order::lifo;

    /// `strict` is right whenever a resource is held longer than a thread switch takes: any network
    /// round trip. `bounded` is for microsecond holds by blocked threads, where strict hand-over
    /// costs a thread switch per use. `turns` is for more threads than processors: a thread that
    /// acquires again within 100 us gets its own resource back four times, or for 100 us, before
    /// the next thread gets it. Waiters that are coroutines, want several or are `reserved` are
    /// served as with `strict`.
    cenote::fairness fairness = cenote::fairness::strict;

    /// With `fairness::bounded`: how old the head of the line gets before it can no longer be
    /// overtaken. At most a second: so long somebody may sleep beside a free resource.
    std::chrono::nanoseconds bypass_for = std::chrono::milliseconds{1};

    /// Waiters beyond this are refused at once with `line_full`.
    std::size_t line_max = 10'000;

    /// How much longer somebody must have waited to be served before somebody of the next higher
    /// priority.
    std::chrono::nanoseconds head_start = std::chrono::seconds{1};

    /// Refuse early those who would be served late. Off unless it has a `target`.
    cenote::shed shed = {};

    /// For a pool on an executor (<cenote/asio.hpp>): a blocking call on a thread that runs that
    /// executor takes away what the pool needs to answer it, and hangs if that was the only one.
    /// Observers are told (`loop_blocked`). If this is true, an acquire that would have to wait is
    /// also refused, with `deadlock`, and close(timeout) and wait_ready do not wait. If it is not
    /// set: true in debug builds of the library.
    std::optional<bool> refuse_on_loop = std::nullopt;

    /// When the circuit opens and closes (<cenote/breaker.hpp>). Null: by hand only, with
    /// pool::deactivate, recover and activate.
    ///
    ///     .breaker = std::make_shared<cenote::threshold_breaker>()
    std::shared_ptr<cenote::breaker> breaker = nullptr;

    /// If every lease is held by a thread that waits for a second one of this pool, no lease will
    /// ever come back. If this is true, the last of these threads is refused at once with
    /// `deadlock`; otherwise all of them time out, and the text of the timeout names the suspicion.
    ///
    /// A lease that was moved, or acquired by a coroutine, has no known holder, and there is no
    /// deadlock then. But a lease that another thread reaches by reference counts as held by the
    /// thread that acquired it: that is why this is off. Switch it on if leases stay with the
    /// thread that acquired them.
    bool refuse_deadlock = false;

    /// Spacing of failed opens, per pool, not per waiter.
    cenote::backoff backoff = {};

    /// Whether callers wait through failed opens or are told at once. `retry` hides a server's
    /// restart from callers that can wait; choose `fail_fast` where a late answer is worse than an
    /// error. Errors that the connector calls final (`classify_open`) are told at once either way.
    cenote::open_errors open_errors = cenote::open_errors::retry;

    /// Seeds the pool's random choices (lifetime jitter, backoff). Zero takes a seed from the
    /// system.
    std::uint64_t seed = 0;

    /// Told about every event, in order, one at a time, outside every lock.
    std::vector<std::shared_ptr<observer>> observers = {};

    /// For tests: the pool goes by this clock, which the test moves, and has no threads
    /// (<cenote/testing.hpp>). Null: the system's monotonic clock.
    std::shared_ptr<manual_clock> clock = nullptr;
};

/// What one acquire wants otherwise than the rest; an aggregate for designated initialisers.
///
///     auto held = pool.acquire({.timeout = 100ms, .priority = priority::high, .task =
///     "checkout"});
struct acquire_options {
    /// How long to wait; unset: options::acquire_timeout; zero or less: only what is ready now.
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt;

    /// Only matters to those who have to wait: whoever comes and finds something free gets it.
    cenote::priority priority = cenote::priority::normal;

    /// False: the caller does not wait for another caller's lease. It still waits for calls of the
    /// connector, like an open or a probe. If leases and callers in line make up `max`, or the pool
    /// is paused, it is refused at once with `line_full`. For callers with somewhere else to go: a
    /// cache, a replica.
    bool queue = true;

    /// Names what the lease is for, in `leases()`, in reports of leaks and in the texts of
    /// timeouts. Not copied: a literal, or something else that lives as long as the pool, since it
    /// may be read when the lease has just ended.
    const char* task = nullptr;

    /// Instead of options::leak_after, for this lease; unset: that one. `forever`: never reported.
    std::optional<std::chrono::nanoseconds> leak_after = std::nullopt;
};

/// An option's value breaks its rule. `what()` names the option, the value and the rule.
class invalid_option : public std::invalid_argument {
public:
    invalid_option(std::string_view option, std::string_view value, std::string_view rule);

    /// The option's name, as written in `options`.
    const std::string& option() const noexcept { return *option_; }

private:
    std::shared_ptr<const std::string> option_;
};

/// Throws `invalid_option` for the first option that breaks its rule. `can_probe`: whether the
/// connector has a probe; without one, options that ask for probes are refused.
void validate(const options& settings, bool can_probe = true);
/// The rule of `options::name`, for whatever else a pool is called by.
void validate_name(std::string_view name);

}  // namespace cenote

// The options of a pool and of an acquire. The comment of each option of a pool gives its default,
// its effect, when to change it, and what that costs.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/trace_context.hpp"

namespace cenote {

class breaker;
class manual_clock;
class observer;

/// Disables a limit: the duration or the count is never reached.
///
///     cenote::options{.idle_timeout = cenote::forever, .max_uses = cenote::forever}
struct forever_t {
    /// Converts to any duration, and to the counts of options.
    template <class Rep, class Period>
    constexpr operator std::chrono::duration<Rep, Period>() const noexcept {
        return std::chrono::duration<Rep, Period>::max();
    }
    // Only std::uint64_t. If it converted to every integer type, nanoseconds{forever} would compile
    // and use the integer as its tick count.
    template <std::same_as<std::uint64_t> Count>
    constexpr operator Count() const noexcept {
        return std::numeric_limits<Count>::max();
    }
};
/// The only value of forever_t.
inline constexpr forever_t forever{};

/// When the minimum (`min_size`, `min_idle`) is opened.
enum class warm_up : std::uint8_t {
    background,  ///< The constructor starts the opens and returns at once.
    wait,        ///< The constructor returns when the minimum is open, or throws the first error.
    none,        ///< The first acquire starts the opens.
};

/// Which idle resource is lent next.
enum class order : std::uint8_t {
    lifo,  ///< The most recently used one. A small set stays in use, and the rest is retired.
    fifo,  ///< The least recently used one. All resources are used evenly.
};

/// Who gets a resource that becomes free while callers wait.
enum class fairness : std::uint8_t {
    strict,   ///< The waiter at the head of the line.
    bounded,  ///< A newcomer may go first until the head has waited `bypass_for`.
    turns,    ///< The head. Exception: a thread that releases a resource and acquires again at once
              ///< gets it back a few times.
};

/// Delay before the next open after a failed one. The delay is measured from the start of the
/// failed open. It doubles from `first` up to `cap_waiting` while callers wait, and up to
/// `cap_idle` otherwise. Each delay varies by ±20 %, so that many pools do not retry at the same
/// moment. If callers wait and no open has succeeded for a second or more, the pool starts an extra
/// open every `cap_waiting`, as far as `max` leaves room.
struct backoff {
    /// Default 20 ms. The delay after the first failed open.
    std::chrono::nanoseconds first = std::chrono::milliseconds{20};
    /// Default 200 ms. The longest delay while callers wait.
    std::chrono::nanoseconds cap_waiting = std::chrono::milliseconds{200};
    /// Default 5 s. The longest delay while no caller waits.
    std::chrono::nanoseconds cap_idle = std::chrono::seconds{5};

    bool operator==(const backoff&) const = default;
};

/// What a failed open means for the callers that wait.
enum class open_errors : std::uint8_t {
    retry,      ///< Callers keep waiting, and opens are retried with `backoff`. A caller whose
                ///< deadline passes gets the last error as the cause (pool_error::cause).
    fail_fast,  ///< The head of the line is refused at once with `open_failed` and the error. If no
                ///< resource is open or opening, all waiters are refused.
};

/// The importance of an acquire. In line, `high` counts from its arrival, `normal` as if it arrived
/// one options::head_start later, `low` two. So no waiter starves. `reserved` always goes first;
/// use it rarely.
enum class priority : std::uint8_t {
    reserved,  ///< For health checks and administration. Not subject to `line_max` and `shed`.
    high,      ///< One `head_start` ahead of `normal`.
    normal,    ///< The default.
    low,       ///< One `head_start` behind `normal`.
};
inline constexpr std::size_t priority_count = 4;

/// Load shedding by the CoDel algorithm. Shedding starts after an `interval` in which no waiter was
/// served within `target`, and ends after an interval in which one was. While shedding is active, a
/// waiter that has waited twice the `target` is refused with `shed`, unless it is `reserved`. This
/// avoids spending resources on callers that have given up.
struct shed {
    /// Default `forever`, which turns shedding off. The longest wait that is still useful.
    std::chrono::nanoseconds target = forever;
    /// Default 100 ms. How long waits must exceed `target` before callers are refused. Longer
    /// intervals tolerate longer bursts.
    std::chrono::nanoseconds interval = std::chrono::milliseconds{100};

    bool operator==(const shed&) const = default;
};

/// A token bucket for opens: it holds `burst` tokens, gains `per_second` tokens a second, and each
/// open takes one. In any t seconds at most burst + per_second × t opens begin.
struct open_rate {
    /// Default `forever`: no limit. Opens per second in the long run.
    std::uint64_t per_second = forever;
    /// Default 1. Opens that may begin at the same time.
    std::uint64_t burst = 1;

    bool operator==(const open_rate&) const = default;
};

/// The options of one pool. Set them with designated initializers. The pool's constructor throws
/// `invalid_option` for an invalid value.
///
///     cenote::pool<session> pool{connect, {.name = "orders", .max = 32, .min_idle = 4}};
///
/// The fast lane: an acquire that finds a recently used resource takes about 20 ns and no lock, and
/// so does a release when no caller waits. Options that must check every lease disable the fast
/// lane; each lease then costs about 200 ns.
struct options {
    /// Default "pool". Names the pool in errors, events, metrics and thread names. 1 to 100
    /// printable ASCII characters except `"` and `\`. Metrics and the dashboard append a number to
    /// equal names. Set it in every program, to tell its pools apart. Costs nothing.
    std::string name = "pool";

    /// Default 10, at most 1 000 000. Maximum number of resources that are open, opening or
    /// closing, at every instant. A resource whose connector call exceeded its timeout no longer
    /// counts, so the server can briefly see more connections. Raise `max` if `stats().waiting`
    /// stays above zero while the server has spare capacity; lower it if the server has none.
    /// `cenote size` measures a good value. Costs one connection at the server per resource.
    std::size_t max = 10;

    /// Default 0. Minimum number of open resources, including leased ones. The pool opens them at
    /// start (`warm_up`), replaces closed ones in the background, and does not retire idle ones
    /// below this number. If a resource of the minimum expires, its replacement opens first; if
    /// `max` leaves no room, the expired resource closes first. Raise `min_size` if the first
    /// requests after a start or a quiet period must not wait for an open. Costs idle connections
    /// at the server.
    std::size_t min_size = 0;

    /// Default 0. Minimum number of idle resources in addition to leased ones, limited by `max`.
    /// Raise it for bursts that cannot wait for an open. Costs idle connections at the server.
    std::size_t min_idle = 0;

    /// Default `background`. When the minimum is opened. Choose `wait` if the program should not
    /// start without its server. `wait` costs a slower start; `none` makes the first callers wait.
    cenote::warm_up warm_up = cenote::warm_up::background;

    /// Default 5 s. Time limit for a whole acquire: waiting, opening, probing and resetting.
    /// Each acquire can override it (acquire_options). Set it below the deadline of the caller's
    /// own request. A short limit costs refusals during a load peak or a restart of the server; a
    /// long one lets callers pile up.
    std::chrono::nanoseconds acquire_timeout = std::chrono::seconds{5};

    /// Defaults 10 s, 1 s, 1 s, 1 s. Time limits of a single connector call. After the limit, the
    /// pool abandons the call and continues. If an abandoned open succeeds later, the pool closes
    /// its resource. Raise them for slow networks; an open over TLS to another continent can take a
    /// second. Lower them if a failure must be noticed sooner. Too short a limit costs slow opens
    /// and healthy resources; a long one occupies a slot for as long as a call hangs.
    std::chrono::nanoseconds open_timeout = std::chrono::seconds{10};
    std::chrono::nanoseconds probe_timeout = std::chrono::seconds{1};
    std::chrono::nanoseconds reset_timeout = std::chrono::seconds{1};
    std::chrono::nanoseconds close_timeout = std::chrono::seconds{1};

    /// Default 4. Maximum number of concurrent opens, and of idle resources that retire_all() and
    /// resize() close at the same time. The pool opens only what waiters, try_acquire and the
    /// minimum need. Values above `max` have no further effect. Lower it for servers on which a
    /// login is expensive; raise it if opens are slow and many are needed. A higher value costs the
    /// server more simultaneous logins.
    std::size_t opening_max = 4;

    /// Default: no limit. Maximum number of opens that begin per second, counting all opens. Each
    /// field is at most 1 000 000. Set it if many processes would reconnect at once to a server
    /// that has restarted. Costs a slower recovery.
    cenote::open_rate open_rate = {};

    /// Default 5 min. The pool retires a resource that has been idle for longer, down to `min_size`
    /// and `min_idle`. Set it below the idle timeouts of the server and of proxies and firewalls on
    /// the route. A short time costs opens after quiet periods.
    std::chrono::nanoseconds idle_timeout = std::chrono::minutes{5};

    /// Defaults 30 min and 0.1. Maximum age. Each resource gets a random limit in
    /// [max_lifetime × (1 − lifetime_jitter), max_lifetime] when it opens, so resources that opened
    /// together expire at different times. Set it below the server's own connection lifetime limit;
    /// lower it if credentials expire or new servers must get their share of connections sooner.
    /// Costs one open per resource and lifetime.
    std::chrono::nanoseconds max_lifetime = std::chrono::minutes{30};
    double lifetime_jitter = 0.1;

    /// Default `forever`. The pool retires a resource after this many leases. Set it for servers
    /// whose sessions use more memory over time. Costs one open per `max_uses` leases.
    std::uint64_t max_uses = forever;

    /// Default 1 s. Minimum interval between sweeps. A sweep closes resources that have exceeded
    /// `max_lifetime` or `idle_timeout`, and checks for leaks; no resource is closed early. Shorten
    /// it if closes, leak reports and hold times must be more punctual. Costs one pass over the
    /// open resources each time.
    std::chrono::nanoseconds sweep_interval = std::chrono::seconds{1};

    /// Default 5 s. An acquire probes a resource that has been idle for this long or longer
    /// (validation on borrow). Zero probes on every acquire; `forever` never probes on acquire. If
    /// the connector cannot probe, the default has no effect, and any other value except `forever`
    /// throws invalid_option. Lower it if a dead resource is worse than a probe; choose `forever`
    /// if borrowers detect dead resources themselves. Costs a round trip in each acquire that
    /// probes; values below 1 s disable the fast lane.
    std::chrono::nanoseconds probe_after_idle = std::chrono::seconds{5};

    /// Default false. Probes each resource when its lease ends (validation on return). Throws
    /// invalid_option if the connector cannot probe. Set it if borrowers break resources without
    /// noticing. Costs a probe per lease, and disables the fast lane.
    bool probe_on_release = false;

    /// Default `forever` (off). Probes idle resources at this interval in the background, one at a
    /// time. Throws invalid_option if the connector cannot probe. Set it for servers that close
    /// quiet connections, or to find dead resources before a caller does. Costs a probe of each
    /// idle resource per interval.
    std::chrono::nanoseconds heartbeat = forever;

    /// Default 30 s. The pool reports a lease that is held longer (`leak_suspected`) with its call
    /// site and task: once, then each time its duration doubles. The lease remains valid. The
    /// start of a fast-lane lease is not recorded. Its duration counts from the pool's next check,
    /// which comes after at most `sweep_interval`, or half of `leak_after` if that is shorter.
    /// Raise it if long leases are normal. A low value costs false reports.
    std::chrono::nanoseconds leak_after = std::chrono::seconds{30};

    /// Default 50 ms. For connectors that return `verdict::reset_later`: the pool resets such a
    /// resource when it has been idle for this long. Before that, the next lease can do the reset
    /// more cheaply. Until the reset, locks and temporary tables of the last lease remain on the
    /// server. With the fast lane the reset can come after up to twice this time. Zero resets at
    /// once, like `verdict::reset`; `forever` leaves the reset to the next lease. Lower it if
    /// leftover locks or temporary tables block other sessions. A shorter time costs more resets
    /// that need a round trip of their own.
    std::chrono::nanoseconds reset_after = std::chrono::milliseconds{50};

    /// Default `lifo`. Which idle resource is lent next. Choose `fifo` if all resources must be
    /// used evenly. `fifo` costs the fast lane, and resources are rarely idle for long enough to be
    /// retired.
    cenote::order order = cenote::order::lifo;

    /// Default `turns`: a thread that acquires again within 100 µs gets its own resource back
    /// before the head of the line: four times, or for 100 µs if that is more often.
    /// Turns save a thread switch per lease when there are more threads than processors; the pool
    /// stops granting them while threads rarely come back. Coroutines, requests for several
    /// resources and `reserved` waiters are always served in order. A pool on an executor or a
    /// manual clock behaves as with `strict`.
    ///
    /// `turns` costs a longest wait about twice that of `strict`. Choose `strict` if no caller may
    /// be overtaken: every resource goes to the head of the line, which costs a thread switch per
    /// lease. Choose `bounded` for threads that hold a resource for microseconds: it has the
    /// highest throughput, but wait times vary widely.
    cenote::fairness fairness = cenote::fairness::turns;

    /// Default 1 ms, at most 1 s. With `fairness::bounded`: newcomers may go before the head of the
    /// line until it has waited this long. Raise it to several usual waits if all processors are
    /// busy and throughput counts more than the longest wait. Cost: the head may sleep up to this
    /// long beside a free resource.
    std::chrono::nanoseconds bypass_for = std::chrono::milliseconds{1};

    /// Default 10 000, at most 10 000 000. An acquire is refused with `line_full` if this many
    /// callers wait. Zero grants only what is ready. Lower it to refuse callers sooner under
    /// overload; see also `shed`. A short line costs refusals during bursts.
    std::size_t line_max = 10'000;

    /// Default 1 s, at most a day. A waiter is served before one of the next higher priority if it
    /// has waited longer by at least this much. Change it only if acquires have priorities. A
    /// longer time costs longer waits of low priorities; zero serves `high`, `normal` and `low` in
    /// order of arrival.
    std::chrono::nanoseconds head_start = std::chrono::seconds{1};

    /// Default: off. Refuses callers early that would otherwise be served too late. Set it if
    /// demand may exceed capacity, with `target` as the longest wait that is still useful. Costs
    /// refusals of callers that might have been served before their deadline.
    cenote::shed shed = {};

    /// Default true in debug builds of the library, false otherwise. If true, an acquire that would
    /// block a thread of the pool's own executor is refused with `deadlock`, and close(timeout) and
    /// wait_ready() do not wait there. If false, such a call blocks, and can hang, because the pool
    /// runs on that thread. Observers receive `loop_blocked` in both cases. Concerns only pools on
    /// an executor (<cenote/asio.hpp>). Set it to true if a blocked event loop must be an error in
    /// production, too. Costs refusals of calls that would only have delayed the loop.
    std::optional<bool> refuse_on_loop = std::nullopt;

    /// Default null: the circuit breaker changes state only through pool::deactivate, recover and
    /// activate. A strategy (<cenote/breaker.hpp>) opens the circuit when the server fails. Set one
    /// if callers should be refused at once during an outage instead of at their deadline. Costs
    /// refusals during the cool-down after the server is back.
    ///
    ///     cenote::options{.breaker = std::make_shared<cenote::threshold_breaker>()}
    std::shared_ptr<cenote::breaker> breaker = nullptr;

    /// If true, the pool refuses an acquire with `deadlock` at once if every lease is held by a
    /// thread that waits for a second lease of this pool, because no lease would come back. If
    /// false, these threads wait until a deadline passes, and the timeout text says that a deadlock
    /// is likely. The holder of a lease that was moved, or acquired by a coroutine, is unknown;
    /// such a lease prevents the detection.
    ///
    /// Default false, because the pool could otherwise refuse wrongly: a lease used by another
    /// thread by reference still counts as held by the thread that acquired it. Set it to true if
    /// leases stay with the thread that acquired them; otherwise it costs wrong refusals.
    bool refuse_deadlock = false;

    /// Default 20 ms, doubling to 200 ms while callers wait and to 5 s otherwise. Delay before the
    /// next open after a failed one, for the whole pool. `first` must not exceed either cap, and
    /// neither cap a day. Raise the caps if failed opens load the server. Longer delays cost time:
    /// the pool notices later that the server is back.
    cenote::backoff backoff = {};

    /// Default `retry`. Whether callers keep waiting when opens fail. With `retry`, callers with
    /// enough time do not notice a server restart. An error that the connector calls final
    /// (`classify_open`) counts as `fail_fast`. Choose `fail_fast` if a late answer is worse than
    /// an error. It costs errors during a short restart of the server.
    cenote::open_errors open_errors = cenote::open_errors::retry;

    /// Default 0: a seed from the system. Seeds the pool's random numbers (lifetime jitter,
    /// backoff). Set it for repeatable tests. Costs simultaneous retries and expiries if many pools
    /// have the same seed.
    std::uint64_t seed = 0;

    /// Default none. Observers receive events in order, one at a time, outside all locks (except
    /// `exhausted`, see observer.hpp). Add one to log failed opens, leaks and outages, or to count
    /// what stats() does not. An observer that is too slow misses events (stats::events_lost). One
    /// that wants the events of every lease costs the fast lane.
    std::vector<std::shared_ptr<observer>> observers = {};

    /// Default null: the system's monotonic clock. Set it in tests: time advances only when the
    /// test moves this clock (<cenote/testing.hpp>). Costs the pool's threads and its fast lane.
    std::shared_ptr<manual_clock> clock = nullptr;
};

/// Refers to a std::stop_token, which must outlive the acquire. A temporary like
/// `source.get_token()` does not compile.
class stop_reference {
public:
    constexpr stop_reference() noexcept = default;
    /// Refers to `token`.
    stop_reference(const std::stop_token& token) noexcept : token_(&token) {}
    stop_reference(const std::stop_token&& token) = delete;

    /// The token; an empty one if none was set.
    std::stop_token token() const noexcept {
        return token_ == nullptr ? std::stop_token() : *token_;
    }
    /// Whether a token was set.
    explicit operator bool() const noexcept { return token_ != nullptr; }

private:
    const std::stop_token* token_ = nullptr;
};

/// The options of one acquire, which override those of the pool. Set them with designated
/// initializers.
///
///     auto conn = pool.acquire({.timeout = 100ms, .task = "checkout"});
///     auto next = pool.acquire({.deadline = deadline, .stop = token}, error);
struct acquire_options {
    /// Default: options::acquire_timeout, or no timeout if `deadline` is set. How long the acquire
    /// may take. Zero or less: it succeeds only if a resource is ready now.
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt;

    /// Default none. The acquire ends by this time. If `timeout` is also set, the earlier one
    /// applies.
    std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt;

    /// Default none. The wait ends with `canceled` when this token receives a stop request. An
    /// acquire that finds a resource ready does not check the token.
    stop_reference stop = {};

    /// Default `normal`. The place in line. It has no effect if a resource is free.
    cenote::priority priority = cenote::priority::normal;

    /// Default true. If false, the acquire does not wait for leases of other callers: it is refused
    /// at once with `line_full` if leases, waiters and this request together exceed `max`, or if
    /// the pool is paused. It still waits for calls of the connector, such as an open or a probe.
    /// Use it if the caller has a fallback, such as a cache.
    bool queue = true;

    /// Default null. The purpose of the lease, shown in `leases()`, in leak reports and in the text
    /// of timeouts. Only the pointer is stored, and it can be read shortly after the lease ends:
    /// use a literal, or a text that outlives the pool.
    const char* task = nullptr;

    /// Default: options::leak_after. The pool reports this lease as a leak after this time; with
    /// `forever`, never.
    std::optional<std::chrono::nanoseconds> leak_after = std::nullopt;

    /// Default: no trace. The span in which the acquire happens. Observers get it with the events
    /// `waited` and `exhausted` of this acquire (event::trace). Set it if the waits are to be seen
    /// in traces. Costs the copy of 25 bytes.
    trace_context trace = {};
};

/// Thrown if an option has an invalid value. `what()` names the option, the value and the rule.
class invalid_option : public std::invalid_argument {
public:
    /// For use by the library.
    invalid_option(std::string_view option, std::string_view value, std::string_view rule);

    /// The name of the option, as in `options`.
    const std::string& option() const noexcept { return *option_; }

private:
    std::shared_ptr<const std::string> option_;
};

/// Throws `invalid_option` for the first invalid option. If `can_probe` is false, options that
/// request probes are invalid, except the default of probe_after_idle.
void validate(const options& settings, bool can_probe = true);
/// Throws `invalid_option` if `name` breaks the rule of `options::name`.
void validate_name(std::string_view name);

}  // namespace cenote

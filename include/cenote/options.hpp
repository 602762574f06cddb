// The options of a pool and of an acquire. Each comment gives the default and the effect, and,
// where it helps to choose a value, when to change the option and what that costs.
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
              ///< can get it back a few times.
};

/// Delay before the next open after a failed one. It starts when the failed open started. The delay
/// doubles from `first` up to `cap_waiting` while callers wait, and up to `cap_idle` otherwise.
/// Each delay varies by ±20 %, so that many pools do not retry at the same moment. If callers wait
/// and no open has succeeded for a second or more, the pool starts an extra open every
/// `cap_waiting`, as far as `max` leaves room.
struct backoff {
    std::chrono::nanoseconds first = std::chrono::milliseconds{20};         ///< The first delay.
    std::chrono::nanoseconds cap_waiting = std::chrono::milliseconds{200};  ///< While callers wait.
    std::chrono::nanoseconds cap_idle = std::chrono::seconds{5};            ///< With no waiter.

    bool operator==(const backoff&) const = default;
};

/// What a failed open means for the callers that wait.
enum class open_errors : std::uint8_t {
    retry,      ///< Callers keep waiting, and opens are retried with `backoff`. A caller whose
                ///< deadline passes gets the last error as the cause (pool_error::cause).
    fail_fast,  ///< The head of the line is refused at once with `open_failed` and the error. If no
                ///< resource is open or opening, all waiters are refused.
};

/// The importance of an acquire. A `normal` waiter is served as if it had arrived
/// `options::head_start` later than it did, and a `low` waiter as if it had arrived two head starts
/// later, so no waiter starves behind `high` ones. `reserved` always goes first; use it rarely.
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
    std::chrono::nanoseconds target = forever;  ///< `forever` turns shedding off.
    std::chrono::nanoseconds interval = std::chrono::milliseconds{100};

    bool operator==(const shed&) const = default;
};

/// A token bucket for opens: it holds `burst` tokens, gains `per_second` tokens a second, and each
/// open takes one. In any t seconds at most burst + per_second × t opens begin.
struct open_rate {
    std::uint64_t per_second = forever;  ///< Opens per second in the long run.
    std::uint64_t burst = 1;             ///< Opens that may begin at once.

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
    /// equal names.
    std::string name = "pool";

    /// Default 10, at most 1 000 000. Maximum number of resources that are open, opening or
    /// closing, at every instant. A resource whose connector call exceeded its timeout no longer
    /// counts, so the server can briefly see more connections. Raise `max` if `stats().waiting`
    /// stays above zero while the server has spare capacity. `cenote size` measures a good value.
    std::size_t max = 10;

    /// Default 0. Minimum number of open resources, including leased ones. The pool opens them at
    /// start (`warm_up`), replaces closed ones in the background, and does not retire idle ones
    /// below this number. An expired resource is closed after its replacement is open, or before if
    /// `max` leaves no room. Raise it if the first requests after a start or a quiet period must
    /// not wait for an open. Costs idle connections on the server.
    std::size_t min_size = 0;

    /// Default 0. Minimum number of idle resources in addition to leased ones, limited by `max`.
    /// Raise it for bursts that cannot wait for an open. Costs idle connections on the server.
    std::size_t min_idle = 0;

    /// Default `background`. When the minimum is opened. Choose `wait` if the program should not
    /// start without its server.
    cenote::warm_up warm_up = cenote::warm_up::background;

    /// Default 5 s. Time limit for a whole acquire: waiting, opening, probing and resetting.
    /// Each acquire can override it (acquire_options). Set it below the deadline of the caller's
    /// own request.
    std::chrono::nanoseconds acquire_timeout = std::chrono::seconds{5};

    /// Defaults 10 s, 1 s, 1 s, 1 s. Time limits of a single connector call. After the limit, the
    /// pool abandons the call and continues. If an abandoned open succeeds later, the pool closes
    /// its resource. Raise them for slow networks; an open over TLS to another continent can take a
    /// second.
    std::chrono::nanoseconds open_timeout = std::chrono::seconds{10};
    std::chrono::nanoseconds probe_timeout = std::chrono::seconds{1};
    std::chrono::nanoseconds reset_timeout = std::chrono::seconds{1};
    std::chrono::nanoseconds close_timeout = std::chrono::seconds{1};

    /// Default 4. Maximum number of concurrent opens. The pool opens only what waiters, try_acquire
    /// and the minimum need. Lower it for servers on which a login is expensive. Values above `max`
    /// have no further effect.
    std::size_t opening_max = 4;

    /// Default: no limit. Maximum number of opens that begin per second, counting all opens. Keeps
    /// clients from reconnecting all at once after a server restart. Each field is at most
    /// 1 000 000.
    cenote::open_rate open_rate = {};

    /// Default 5 min. The pool retires a resource that has been idle for longer, down to `min_size`
    /// and `min_idle`. Set it below the idle timeouts of the server and of proxies and firewalls on
    /// the route.
    std::chrono::nanoseconds idle_timeout = std::chrono::minutes{5};

    /// Defaults 30 min and 0.1. Maximum age. Each resource gets a random limit in
    /// [max_lifetime × (1 − lifetime_jitter), max_lifetime] when it opens, so resources that opened
    /// together expire at different times. Set it below the server's own connection lifetime limit.
    std::chrono::nanoseconds max_lifetime = std::chrono::minutes{30};
    double lifetime_jitter = 0.1;

    /// Default `forever`. The pool retires a resource after this many leases. For servers whose
    /// sessions use more memory over time.
    std::uint64_t max_uses = forever;

    /// Default 1 s. Minimum interval between sweeps. A sweep closes resources that have exceeded
    /// `max_lifetime` or `idle_timeout`, and checks for leaks; no resource is closed early. A
    /// shorter interval makes closes, leak reports and hold times more punctual, and costs one pass
    /// over the open resources each time.
    std::chrono::nanoseconds sweep_interval = std::chrono::seconds{1};

    /// Default 5 s. An acquire probes a resource that has been idle for this long or longer
    /// (validation on borrow). Zero probes on every acquire. Values below 1 s disable the fast
    /// lane; `forever` never probes on acquire. If the connector cannot probe, the default has no
    /// effect, and any other value except `forever` throws invalid_option.
    std::chrono::nanoseconds probe_after_idle = std::chrono::seconds{5};

    /// Default false. Probes each resource when its lease ends (validation on return). Disables the
    /// fast lane. Throws invalid_option if the connector cannot probe.
    bool probe_on_release = false;

    /// Default `forever` (off). Probes idle resources at this interval in the background, one at a
    /// time. For servers that close quiet connections, and to find dead resources before a caller
    /// does. Costs a probe of each idle resource per interval. Throws invalid_option if the
    /// connector cannot probe.
    std::chrono::nanoseconds heartbeat = forever;

    /// Default 30 s. The pool reports a lease that is held longer (`leak_suspected`) with its call
    /// site and task: once, then each time its duration doubles. The lease remains valid. The
    /// start of a fast-lane lease is not recorded. Its duration counts from the pool's next check,
    /// which comes after at most `sweep_interval`, or half of `leak_after` if that is shorter.
    /// Raise it if long leases are normal.
    std::chrono::nanoseconds leak_after = std::chrono::seconds{30};

    /// Default 50 ms. For connectors that return `verdict::reset_later`: the pool resets such a
    /// resource when it has been idle for this long. Before that, the next lease can do the reset
    /// more cheaply. Until the reset, locks and temporary tables of the last lease remain on the
    /// server. With the fast lane the reset can come after up to twice this time. Zero resets at
    /// once, like `verdict::reset`; `forever` leaves the reset to the next lease.
    std::chrono::nanoseconds reset_after = std::chrono::milliseconds{50};

    /// Default `lifo`. Which idle resource is lent next. `fifo` disables the fast lane.
    cenote::order order = cenote::order::lifo;

    /// Default `turns`: a thread that acquires again within 100 µs gets its own resource back
    /// before the head of the line. Such a turn ends when the thread has had four of these leases
    /// and 100 µs have passed. Turns save a thread switch per lease when there are more threads
    /// than processors; the pool stops granting them while threads rarely come back. Coroutines,
    /// requests for several resources and `reserved` waiters are always served in order. A pool on
    /// an executor or a manual clock behaves as with `strict`. `strict` gives every resource to the
    /// head of the line, which minimizes the longest wait and costs a thread switch per lease.
    /// `bounded` is for threads that hold a resource for microseconds: the highest throughput, but
    /// wait times vary widely.
    cenote::fairness fairness = cenote::fairness::turns;

    /// Default 1 ms, at most 1 s. With `fairness::bounded`: newcomers may go before the head of the
    /// line until it has waited this long. The head may wait that long even if a resource is free.
    std::chrono::nanoseconds bypass_for = std::chrono::milliseconds{1};

    /// Default 10 000, at most 10 000 000. An acquire is refused with `line_full` if this many
    /// callers wait. Lower it to refuse callers sooner under overload; see also `shed`.
    std::size_t line_max = 10'000;

    /// Default 1 s, at most a day. A waiter is served before one of the next higher priority if it
    /// has waited longer by at least this much. Raise it if low priorities may wait longer; zero
    /// serves `high`, `normal` and `low` in order of arrival.
    std::chrono::nanoseconds head_start = std::chrono::seconds{1};

    /// Default: off. Refuses callers early that would otherwise be served too late. Set `target` to
    /// the longest wait that is still useful.
    cenote::shed shed = {};

    /// Default: true in debug builds of the library, false otherwise. For a pool on an executor
    /// (<cenote/asio.hpp>): a blocking call on a thread that runs the executor can hang, because
    /// the pool runs on that thread. Observers receive `loop_blocked`. If this option is true, such
    /// an acquire is refused with `deadlock` instead of waiting, and close(timeout) and
    /// wait_ready() do not wait.
    std::optional<bool> refuse_on_loop = std::nullopt;

    /// Default null: the circuit breaker changes state only through pool::deactivate, recover and
    /// activate. A strategy (<cenote/breaker.hpp>) opens the circuit when the server fails, so that
    /// callers are refused at once instead of at their deadline.
    ///
    ///     cenote::options{.breaker = std::make_shared<cenote::threshold_breaker>()}
    std::shared_ptr<cenote::breaker> breaker = nullptr;

    /// Default false. When every lease is held by a thread that waits for a second lease of this
    /// pool, no lease will ever come back. If this option is true, the last of these threads is
    /// refused at once with `deadlock`. Otherwise each thread waits until a deadline passes, and
    /// the timeout text says that a deadlock is likely.
    ///
    /// The holder of a lease that was moved, or acquired by a coroutine, is unknown; such a lease
    /// prevents the detection. If another thread uses a lease by reference, the thread that
    /// acquired it still counts as the holder, so the default is false. Set it to true if leases
    /// stay with the thread that acquired them.
    bool refuse_deadlock = false;

    /// Default 20 ms, doubling to 200 ms while callers wait and to 5 s otherwise. Delay before the
    /// next open after a failed one, for the whole pool. `first` must not exceed either cap, and
    /// neither cap a day. Raise the caps if failed opens load the server; the pool then notices
    /// later that the server is back.
    cenote::backoff backoff = {};

    /// Default `retry`. Whether callers keep waiting when opens fail. With `retry`, callers with
    /// enough time do not notice a server restart. Choose `fail_fast` if a late answer is worse
    /// than an error. An error that the connector calls final (`classify_open`) counts as
    /// `fail_fast`.
    cenote::open_errors open_errors = cenote::open_errors::retry;

    /// Default 0: a seed from the system. Seeds the pool's random numbers (lifetime jitter,
    /// backoff). Set it for repeatable tests.
    std::uint64_t seed = 0;

    /// Default: none. Observers receive events in order, one at a time, outside all locks
    /// (except `exhausted`, see observer.hpp). An observer that is too slow misses events
    /// (stats::events_lost). An observer that wants the events of every lease disables the fast
    /// lane.
    std::vector<std::shared_ptr<observer>> observers = {};

    /// Default null: the system's monotonic clock. For tests: the pool then has no threads and no
    /// fast lane, and time advances only when the test moves this clock (<cenote/testing.hpp>).
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

    /// Default: none. The acquire ends by this time. If `timeout` is also set, the earlier one
    /// applies.
    std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt;

    /// Default: none. The wait ends with `canceled` when this token receives a stop request. An
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

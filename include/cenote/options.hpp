// The options of a pool and of an acquire: default, effect, when to change, cost.
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
    template <class Rep, class Period>
    constexpr operator std::chrono::duration<Rep, Period>() const noexcept {
        return std::chrono::duration<Rep, Period>::max();
    }
    // Exactly this type: otherwise nanoseconds{forever} would take the count as its ticks.
    template <std::same_as<std::uint64_t> Count>
    constexpr operator Count() const noexcept {
        return std::numeric_limits<Count>::max();
    }
};
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
    strict,   ///< The head of the line.
    bounded,  ///< A newcomer may overtake the head while that has waited less than `bypass_for`.
    turns,    ///< The head. But a thread that releases and acquires again at once gets its own
              ///< resource back a few times.
};

/// Delay between failed opens, measured from the start of the failed one. The delay doubles from
/// `first` up to `cap_waiting` while callers wait, and up to `cap_idle` otherwise. Each delay
/// varies by ±20 %, so that many pools do not retry at the same moment. While callers wait and an
/// open hangs, another open starts every `cap_waiting`.
struct backoff {
    std::chrono::nanoseconds first = std::chrono::milliseconds{20};
    std::chrono::nanoseconds cap_waiting = std::chrono::milliseconds{200};
    std::chrono::nanoseconds cap_idle = std::chrono::seconds{5};

    bool operator==(const backoff&) const = default;
};

/// What a failed open means for the callers that wait.
enum class open_errors : std::uint8_t {
    retry,      ///< Callers keep waiting, and opens are retried with `backoff`. A caller whose
                ///< deadline passes gets the last error as the cause (pool_error::cause).
    fail_fast,  ///< The head of the line is refused at once with `open_failed` and the error. If
                ///< nothing is open or being opened, all waiters are refused.
};

/// The importance of an acquire. Waiters are served by priority, and by arrival within a priority.
/// A priority is a head start (`options::head_start`), so no waiter starves.
enum class priority : std::uint8_t {
    reserved,  ///< For health checks and administration. Before all others; `line_max` and `shed`
               ///< do not apply.
    high,
    normal,
    low,
};
inline constexpr std::size_t priority_count = 4;

/// Load shedding by the CoDel algorithm. When no waiter was served within `target` for a whole
/// `interval`, each waiter that has waited twice the `target` is refused with `shed`, until a
/// waiter is served within `target` again. Under any load, served callers then wait at most twice
/// the `target`, and the pool does not work for callers that have given up.
struct shed {
    std::chrono::nanoseconds target = forever;  ///< `forever` turns shedding off.
    std::chrono::nanoseconds interval = std::chrono::milliseconds{100};

    bool operator==(const shed&) const = default;
};

/// A token bucket for opens: it holds `burst` tokens, gains `per_second` tokens a second, and each
/// open takes one. In any t seconds at most burst + per_second × t opens begin.
struct open_rate {
    std::uint64_t per_second = forever;
    std::uint64_t burst = 1;

    bool operator==(const open_rate&) const = default;
};

/// The options of one pool: an aggregate for designated initializers. The pool's constructor throws
/// `invalid_option` for an invalid value.
///
///     cenote::pool<session> pool{connect, {.name = "orders", .max = 32, .min_idle = 4}};
///
/// The fast lane: an acquire that finds a recently used resource, and a release that no waiter
/// wants, take about 20 ns and no lock. Options that need a look at each lease close the fast lane;
/// each lease then costs about 200 ns.
struct options {
    /// Default "pool". Names the pool in errors, events, metrics and thread names. 1 to 100
    /// printable ASCII characters except `"` and `\`. Metrics and the dashboard append a number to
    /// equal names.
    std::string name = "pool";

    /// Default 10. Hard limit for resources that are open, being opened or being closed, at every
    /// instant. Raise it when `stats().waiting` stays above zero and the server has spare capacity.
    /// `cenote size` measures a good value.
    std::size_t max = 10;

    /// Default 0. Minimum of open resources, leased ones included. The pool opens them at start
    /// (`warm_up`), replaces lost ones in the background, and does not retire idle ones below this
    /// number. Raise it if the first requests after a start or a quiet night must not wait for an
    /// open.
    std::size_t min_size = 0;

    /// Default 0. Minimum of idle resources beside the leased ones, as far as `max` allows. Raise
    /// it for bursts that cannot wait for an open. Costs idle connections on the server.
    std::size_t min_idle = 0;

    /// Default `background`. When the minimum is opened. Choose `wait` if the program should not
    /// start without its server.
    cenote::warm_up warm_up = cenote::warm_up::background;

    /// Default 5 s. Deadline of a whole acquire: waiting, opening, probing and resetting together.
    /// Each acquire can override it (acquire_options). Set it below the deadline of the caller's
    /// own request.
    std::chrono::nanoseconds acquire_timeout = std::chrono::seconds{5};

    /// Defaults 10 s, 1 s, 1 s, 1 s. Limits of a single connector call. When the limit passes, the
    /// call is abandoned: the pool closes what it returns later, and goes on without it. Raise
    /// them for slow networks; an open over TLS to another continent can take a second.
    std::chrono::nanoseconds open_timeout = std::chrono::seconds{10};
    std::chrono::nanoseconds probe_timeout = std::chrono::seconds{1};
    std::chrono::nanoseconds reset_timeout = std::chrono::seconds{1};
    std::chrono::nanoseconds close_timeout = std::chrono::seconds{1};

    /// Default 4. Maximum of opens at the same time. The pool never opens more than waiters and
    /// minimum need. Lower it for servers on which a login is expensive. Values above `max` have no
    /// further effect.
    std::size_t opening_max = 4;

    /// Default: no limit. How many opens may begin per second, for whatever reason. Protects a
    /// server that has just restarted from all its clients at once. `per_second` is at most
    /// 1 000 000.
    cenote::open_rate open_rate = {};

    /// Default 5 min. The pool retires a resource that has been idle for longer, down to `min_size`
    /// and `min_idle`. Set it below the idle timeout of servers, proxies and firewalls in between.
    std::chrono::nanoseconds idle_timeout = std::chrono::minutes{5};

    /// Defaults 30 min and 0.1. Age limit of a resource, drawn when it is opened from
    /// [max_lifetime × (1 − lifetime_jitter), max_lifetime], so that resources that were opened
    /// together are not replaced together. Set it below the server's own limit, if there is one.
    std::chrono::nanoseconds max_lifetime = std::chrono::minutes{30};
    double lifetime_jitter = 0.1;

    /// Default `forever`. The pool retires a resource after this many leases. For servers whose
    /// sessions grow with use.
    std::uint64_t max_uses = forever;

    /// Default 1 s. Shortest interval between sweeps. A sweep retires exactly what is due. A
    /// shorter interval makes retirements, leak reports and hold times more punctual, and costs one
    /// pass over the open resources each time.
    std::chrono::nanoseconds sweep_interval = std::chrono::seconds{1};

    /// Default 5 s. An acquire probes a resource that has been idle for this long or longer
    /// (validation on borrow). Zero probes at every acquire and closes the fast lane; `forever`
    /// turns it off. If the connector cannot probe, the default has no effect, and values other
    /// than `forever` are refused.
    std::chrono::nanoseconds probe_after_idle = std::chrono::seconds{5};

    /// Default false. Probes each resource when its lease ends (validation on return). Closes the
    /// fast lane. Refused if the connector cannot probe.
    bool probe_on_release = false;

    /// Default `forever` (off). Probes idle resources at this interval in the background, one at a
    /// time. For servers that close quiet connections, and to find dead ones before a caller does.
    /// Refused if the connector cannot probe.
    std::chrono::nanoseconds heartbeat = forever;

    /// Default 30 s. The pool reports a lease that is held for longer (`leak_suspected`) with its
    /// call site and task: once, and again each time the duration has doubled. The lease itself
    /// goes on. Leases from the fast lane carry no time, so theirs counts from the next sweep, or
    /// from half of this value if that is sooner.
    std::chrono::nanoseconds leak_after = std::chrono::seconds{30};

    /// Default 50 ms. For connectors that return `verdict::reset_later`: the pool resets such a
    /// resource when it has been idle for this long. Until then its next use can reset it at a
    /// lower cost, but what the last lease left behind (a lock, a temporary table) stays on the
    /// server. On the fast lane it can take twice as long. Zero resets at once, like
    /// `verdict::reset`; `forever` leaves the reset to the next use.
    std::chrono::nanoseconds reset_after = std::chrono::milliseconds{50};

    /// Default `lifo`. Which idle resource is lent next. `fifo` closes the fast lane.
    cenote::order order = cenote::order::lifo;

    /// Default `turns`. With `turns`, a thread that acquires again within 100 us of its release
    /// gets its own resource back, up to four times or for 100 us, before the head of the line gets
    /// it: more threads than processors then pay for a thread switch once per turn. Coroutines,
    /// requests for several resources and `reserved` waiters are always served in order; pools on
    /// an executor are strict. `strict` hands every resource to the head of the line: the shortest
    /// longest wait, at a thread switch per lease. `bounded` is for threads that hold a resource
    /// for microseconds: the highest throughput, with uneven service.
    cenote::fairness fairness = cenote::fairness::turns;

    /// Default 1 ms, at most 1 s. With `fairness::bounded`: newcomers may overtake the head of the
    /// line until it has waited this long. The head may wait that long beside a free resource.
    std::chrono::nanoseconds bypass_for = std::chrono::milliseconds{1};

    /// Default 10 000. An acquire is refused with `line_full` if this many callers wait. Lower it
    /// to refuse early under overload; see also `shed`.
    std::size_t line_max = 10'000;

    /// Default 1 s. How much longer a waiter must have waited to be served before a waiter of the
    /// next higher priority.
    std::chrono::nanoseconds head_start = std::chrono::seconds{1};

    /// Default: off. Refuses callers early that would be served late. Set `target` to the longest
    /// wait that is still useful.
    cenote::shed shed = {};

    /// Default: true in debug builds of the library, false otherwise. For a pool on an executor
    /// (<cenote/asio.hpp>): a blocking call on a thread that runs the executor can hang, because
    /// the pool needs that thread to answer. Observers are told (`loop_blocked`). If this is true,
    /// such an acquire is refused with `deadlock` instead of waiting, and close(timeout) and
    /// wait_ready() do not wait.
    std::optional<bool> refuse_on_loop = std::nullopt;

    /// Default null: the circuit breaker moves only by pool::deactivate, recover and activate. A
    /// strategy (<cenote/breaker.hpp>) opens the circuit when the server fails, so that callers are
    /// refused at once instead of at their deadline.
    ///
    ///     cenote::options{.breaker = std::make_shared<cenote::threshold_breaker>()}
    std::shared_ptr<cenote::breaker> breaker = nullptr;

    /// Default false. When every lease is held by a thread that waits for a second lease of this
    /// pool, no lease will ever come back. If this is true, the last of these threads is refused at
    /// once with `deadlock`. Otherwise they all time out, and the error text names the suspicion.
    ///
    /// A lease that was moved, or acquired by a coroutine, has no known holder and never counts. A
    /// lease that another thread uses by reference counts for the thread that acquired it, which is
    /// why the default is false. Set it to true if leases stay with the thread that acquired them.
    bool refuse_deadlock = false;

    /// Default 20 ms, doubling to 200 ms while callers wait and to 5 s otherwise. Delay between
    /// failed opens, for the whole pool.
    cenote::backoff backoff = {};

    /// Default `retry`. Whether callers wait through failed opens. `retry` hides a restart of the
    /// server from callers that can wait. Choose `fail_fast` if a late answer is worse than an
    /// error. Errors that the connector calls final (`classify_open`) refuse callers at once in
    /// either case.
    cenote::open_errors open_errors = cenote::open_errors::retry;

    /// Default 0: a seed from the system. Seeds the pool's random numbers (lifetime jitter,
    /// backoff). Set it for repeatable tests.
    std::uint64_t seed = 0;

    /// Default: none. Observers are told every event, in order, one at a time, outside all locks.
    /// An observer that wants events of every lease closes the fast lane.
    std::vector<std::shared_ptr<observer>> observers = {};

    /// Default null: the system's monotonic clock. For tests: the pool uses this clock, which the
    /// test moves, and has no threads (<cenote/testing.hpp>).
    std::shared_ptr<manual_clock> clock = nullptr;
};

/// Refers to a std::stop_token. The token must outlive the acquire, so it must have a name: a
/// temporary like `source.get_token()` does not compile.
class stop_reference {
public:
    constexpr stop_reference() noexcept = default;
    stop_reference(const std::stop_token& token) noexcept : token_(&token) {}
    stop_reference(const std::stop_token&& token) = delete;

    /// The token, or one that is never triggered if this refers to none.
    std::stop_token token() const noexcept {
        return token_ == nullptr ? std::stop_token() : *token_;
    }
    explicit operator bool() const noexcept { return token_ != nullptr; }

private:
    const std::stop_token* token_ = nullptr;
};

/// The options of one acquire, which override those of the pool: an aggregate for designated
/// initializers.
///
///     auto conn = pool.acquire({.timeout = 100ms, .task = "checkout"});
///     auto next = pool.acquire({.deadline = deadline, .stop = token}, error);
struct acquire_options {
    /// Default: options::acquire_timeout, or no timeout if `deadline` is set. How long the acquire
    /// may take. Zero or less: it gets only what is ready now.
    std::optional<std::chrono::nanoseconds> timeout = std::nullopt;

    /// Default: none. When the acquire must have ended. If `timeout` is set, too, the earlier of
    /// the two counts.
    std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt;

    /// Default: none. The wait ends with `canceled` when this token is triggered. An acquire that
    /// finds a resource ready does not look at the token.
    stop_reference stop = {};

    /// Default `normal`. The place in line. It has no effect if a resource is free.
    cenote::priority priority = cenote::priority::normal;

    /// Default true. If false, the acquire does not wait for leases of other callers: it is refused
    /// at once with `line_full` if leases and waiters make up `max`, or if the pool is paused. It
    /// still waits for calls of the connector, such as an open or a probe. For callers with an
    /// alternative: a cache, a replica.
    bool queue = true;

    /// Default null. Says what the lease is for, in `leases()`, in leak reports and in the text of
    /// timeouts. The pointer is kept, not the text, and is read even shortly after the lease has
    /// ended: use a literal, or a text that lives as long as the pool.
    const char* task = nullptr;

    /// Default: options::leak_after. When this lease is reported as a leak; `forever`: never.
    std::optional<std::chrono::nanoseconds> leak_after = std::nullopt;
};

/// The value of an option is invalid. `what()` names the option, the value and the rule.
class invalid_option : public std::invalid_argument {
public:
    invalid_option(std::string_view option, std::string_view value, std::string_view rule);

    /// The name of the option, as in `options`.
    const std::string& option() const noexcept { return *option_; }

private:
    std::shared_ptr<const std::string> option_;
};

/// Throws `invalid_option` for the first invalid option. If `can_probe` is false, options that ask
/// for probes are invalid.
void validate(const options& settings, bool can_probe = true);
/// Throws `invalid_option` if `name` breaks the rule of `options::name`.
void validate_name(std::string_view name);

}  // namespace cenote

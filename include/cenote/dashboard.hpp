// A web page that shows and controls pools, served by the process that owns them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cenote/observer.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/secret.hpp"

namespace cenote {

namespace detail {
class dashboard_state;
class dashboard_server;
}  // namespace detail

/// Settings of a dashboard: where it listens, who has access, and its limits. The constructor of
/// dashboard refuses invalid ones.
struct dashboard_options {
    /// Default: loopback, which only this machine can reach. The numeric IP address to listen on.
    /// Any other needs `allow_public` and a `read_token`; one for all interfaces ("0.0.0.0", "::")
    /// also needs `names`.
    std::string address = "127.0.0.1";
    /// Default: zero, a free port chosen by the system; see dashboard::port(). The port to listen
    /// on. Set it for a stable URL.
    std::uint16_t port = 0;
    /// Default false. Allows an `address` other than loopback. There is no TLS: tokens are sent in
    /// the clear, so put a proxy with TLS in front, or use a tunnel and leave this off.
    bool allow_public = false;
    /// Default none. Further host names under which browsers reach the page, as in their address
    /// bar: "ops.example.com" for a proxy, "host.example.com:8080" with a port that is not the
    /// default one. Requests with any other `Host` are refused, which defeats DNS rebinding.
    std::vector<std::string> names = {};

    /// Default: none is required. The token required to read the state. Set it on machines with
    /// other users: they can reach loopback, too.
    secret read_token = {};
    /// Default none, and control is disabled. The token required to pause, resize, retire and so
    /// on; it also allows reading. Must differ from `read_token`.
    secret control_token = {};
    /// Default false. Serves `/metrics` on the same port: the stats of the watched pools as
    /// Prometheus text, like cenote::metrics. Needs a token where reading the state does. Set it if
    /// a Prometheus scrapes this port. Costs a read of all stats per scrape.
    bool serve_metrics = false;
    /// Default false. Serves `/health` on the same port: status 200 while the watched pools can
    /// serve and 503 otherwise, like cenote::service; pools named `...-replica-N` are reported but
    /// not needed. Needs a token where reading the state does. Set it if a monitor polls this port.
    /// Costs a read of all stats per request.
    bool serve_health = false;

    /// The minimum length of a token, in characters.
    static constexpr std::size_t token_min = 16;

    /// Default 64. The maximum number of connections, at least 1. When full, the longest-idle
    /// client is dropped. Raise it for more browsers; each has a buffer of up to 12 KiB.
    std::size_t max_connections = 64;
    /// Default 5 s; `forever` means a day. How long a client may take to send a request, and to
    /// read a response. A control command that takes longer is answered with 202 and continues.
    std::chrono::nanoseconds request_timeout = std::chrono::seconds{5};
    /// Default 30 s; `forever` means a day. How long a connection is kept without a request.
    std::chrono::nanoseconds idle_timeout = std::chrono::seconds{30};
};

/// Shows any number of pools in a browser: slots, leases, waiters, history, events.
///
///     cenote::dashboard board;
///     cenote::pool<session> pool{connect, {.name = "orders", .observers = {board.observer()}}};
///     auto shown = board.watch(pool.control());
///     std::puts(board.url().c_str());
///
/// Listens for the lifetime of this object, on one thread of its own. Once a second the thread
/// reads the stats of each pool, without a lock that an acquire needs. While a browser shows the
/// page, it also reads slots and leases, at most four times a second, under the pool's lock.
///
/// Each control command runs on a further thread, since it can run user code: coroutines that get a
/// lease, the strategy of a breaker. See docs/guide/dashboard.md for security.
///
/// A dashboard belongs to the process that made it: in the child of a fork it does nothing.
///
/// Thread safety: all members may be called from any thread at any time.
class dashboard {
public:
    /// Shows a pool while it exists. Destroy it before the pool; it may outlive the dashboard.
    ///
    /// The destructor waits for a running command to the pool, unless that command calls it (from a
    /// coroutine that the pool resumed). After that the dashboard does not access the pool.
    class entry {
    public:
        /// An entry for no pool.
        entry() noexcept = default;
        entry(entry&&) noexcept = default;
        entry& operator=(entry&&) noexcept = default;
        ~entry() = default;

    private:
        friend class dashboard;
        struct registration;
        std::shared_ptr<registration> registration_;
    };

    /// Starts to listen. Throws std::invalid_argument for invalid options, naming the option, and
    /// std::system_error if it cannot listen.
    explicit dashboard(const dashboard_options& settings = {});
    /// Closes all connections and joins the thread. Waits for running commands, except for one that
    /// calls this destructor.
    ~dashboard();
    dashboard(const dashboard&) = delete;
    dashboard& operator=(const dashboard&) = delete;

    /// Shows a pool under its name; a second pool of the same name gets a number ("orders 2").
    [[nodiscard]] entry watch(pool_control pool);

    /// An observer for `options::observers`. Without it the page shows no events of that pool and
    /// does not mark suspected leaks. It does not want the events that cost the fast lane.
    std::shared_ptr<cenote::observer> observer() const;

    /// The port it listens on.
    std::uint16_t port() const noexcept;
    /// The URL for a browser on this machine, without a token: "http://127.0.0.1:40123/".
    std::string url() const;

private:
    std::shared_ptr<detail::dashboard_state> state_;
    std::unique_ptr<detail::dashboard_server> server_;
};

}  // namespace cenote

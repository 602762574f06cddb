// A page that shows pools while they work, served from inside the program that has them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cenote/observer.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/secret.hpp"

namespace cenote {

namespace detail {
class board;
struct watched_pool;
class dashboard_server;
}  // namespace detail

/// Who may see a dashboard, and how much it may cost.
struct dashboard_options {
    /// Where to listen: an address in numbers. Only this machine can reach the default.
    std::string address = "127.0.0.1";
    /// Zero: any that is free; see dashboard::port().
    std::uint16_t port = 0;
    /// Needed for an address that others can reach, and so is a `read_token`. There is no TLS here:
    /// put a proxy in front that has it, or come through a tunnel.
    bool allow_public = false;
    /// Under which further names browsers reach it, as they stand in their address line:
    /// "ops.example.com" for a proxy, "host.example.com:8080" with a port other than the usual one.
    std::vector<std::string> names = {};

    /// Without it whoever reaches the address may look.
    secret read_token = {};
    /// Without it nobody may pause, resize and so on. Whoever has it may look, too.
    secret control_token = {};
    /// A token must have so many characters.
    static constexpr std::size_t token_min = 16;

    /// So many clients at a time; for one more, whoever has been silent for longest has to go.
    std::size_t max_connections = 64;
    /// In how long a request must have come, and an answer must have been taken.
    std::chrono::nanoseconds request_timeout = std::chrono::seconds{5};
    /// How long a connection may stay without a request.
    std::chrono::nanoseconds idle_timeout = std::chrono::seconds{30};
};

/// Shows any number of pools in a browser: what they have, who holds it, who waits, what happened.
///
///     cenote::dashboard board;
///     cenote::pool<session> pool{connect, {.name = "orders", .observers = {board.observer()}}};
///     auto shown = board.watch(pool.control());
///     std::puts(board.url().c_str());
///
/// Listens from its making to its end, on a thread of its own. What is ordered through the page has
/// a thread each time, as a pool may run code of yours then: coroutines that get a lease, the
/// strategy of a breaker. It looks at each pool once a second,
/// which takes no lock that an acquire needs, and more closely only while somebody looks at the
/// page. Nobody reaches it from outside this machine unless told so, and nobody controls anything
/// without a token; see docs/guide/dashboard.md. It stays with its process: in the child of a fork
/// it shows nothing and serves nobody.
///
/// Thread safety: all members may be called from any thread at any time.
class dashboard {
public:
    /// Keeps a pool on the page, until it ends; then nobody looks at the pool any more, and it may
    /// go. For that it waits until whatever was ordered through the page has been done to the pool,
    /// unless it ends in the midst of that (in a coroutine that the pool has resumed). May outlive
    /// the dashboard.
    class entry {
    public:
        entry() noexcept = default;
        entry(entry&&) noexcept = default;
        entry& operator=(entry&& other) noexcept;
        ~entry();

    private:
        friend class dashboard;
        entry(std::shared_ptr<detail::board> in, std::shared_ptr<detail::watched_pool> of) noexcept
            : in_(std::move(in)), of_(std::move(of)) {}
        void leave() noexcept;

        std::shared_ptr<detail::board> in_;
        std::shared_ptr<detail::watched_pool> of_;
    };

    /// Throws std::invalid_argument for options that contradict each other, a public address
    /// without leave to use it, a token that is too short; std::system_error if it cannot listen.
    explicit dashboard(const dashboard_options& settings = {});
    /// Ends the thread; whoever is connected is cut off. Waits for what is being done to pools,
    /// unless it is that which ends the dashboard.
    ~dashboard();
    dashboard(const dashboard&) = delete;
    dashboard& operator=(const dashboard&) = delete;

    /// The pool is shown under its name; a second one of the same name gets a number to it.
    [[nodiscard]] entry watch(pool_control pool);

    /// For `options::observers` of every pool whose events the page shall show, and of whose leases
    /// it shall say which are held for too long. It wants nothing that costs the fast lane.
    std::shared_ptr<cenote::observer> observer() const;

    std::uint16_t port() const noexcept;
    /// For a browser on this machine, "http://127.0.0.1:40123/"; without a token in it.
    std::string url() const;

private:
    std::shared_ptr<detail::board> board_;
    std::unique_ptr<detail::dashboard_server> server_;
};

}  // namespace cenote

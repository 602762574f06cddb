// The samples in the comments of the public headers, as they stand there, so that they compile.
//
// documents.py compares them. The functions are compiled and never called.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cenote/asio.hpp"
#include "cenote/asio_connector.hpp"
#include "cenote/asio_unit_of_work.hpp"
#include "cenote/breaker.hpp"
#include "cenote/connector.hpp"
#include "cenote/coroutine.hpp"
#include "cenote/per_executor.hpp"
#include "cenote/pool.hpp"
#include "cenote/testing.hpp"
#include "cenote/trace_context.hpp"
#include "cenote/unit_of_work.hpp"

using namespace std::chrono_literals;

namespace samples {

/// What all of them pool.
struct session {
    explicit session(const char*) {}
    void query(const char*) {}
    void rollback() {}
    void clear() {}
};
session connect();
boost::asio::awaitable<session> open_session();

// clang-format off

namespace of_connector {
using cenote::verdict;

    struct my_connector {
        session open();                      // throws if it cannot open
        bool probe(session&);                // health check: false or an exception retires it
        void reset(session&);                // cleans it for the next user; throws if it cannot
        void close(session&);                // graceful close, before the destructor
        bool before_acquire(session&);       // false or an exception: retire it, try another
        bool before_release(session&);       // false or an exception: retire it; see below
        verdict classify(std::exception_ptr) const;       // exceptions of pool::with
        verdict classify_open(std::exception_ptr) const;  // exceptions of open
        void forsake(session&);              // in the child of a fork
        std::string endpoint() const;        // for people: what it connects to, without secrets
        bool can_probe() const noexcept;     // false: as if there were no probe
    };
static_assert(cenote::connector<my_connector, session>);

struct configuration {};
std::shared_ptr<cenote::connector_interface<session>> choose(const configuration&);

void chosen_at_run_time(const configuration& config) {
    std::shared_ptr<cenote::connector_interface<session>> connect = choose(config);
    cenote::pool<session> pool{connect};
}
}  // namespace of_connector

namespace of_asio_connector {
boost::asio::io_context io_context;

    struct my_connector {
        boost::asio::awaitable<session> open();
        boost::asio::awaitable<bool> probe(session&);     // or awaitable<void>
        boost::asio::awaitable<void> reset(session&);     // or awaitable<bool>
        boost::asio::awaitable<void> close(session&);
        bool before_acquire(session&) noexcept;           // these three must not block
        bool before_release(session&);                    // or verdict
        cenote::verdict classify(std::exception_ptr) const;
        cenote::verdict classify_open(std::exception_ptr) const;
        void forsake(session&);
    };
    cenote::pool<session> pool{io_context, my_connector{}, {.max = 32}};

void unit_of_work() {
    cenote::pool<session> units{
        io_context, cenote::async_unit_of_work<session>{open_session}, {.max = 8}};
}

boost::asio::awaitable<void> per_executor(std::span<boost::asio::io_context*> all,
                                          my_connector connector) {
    std::vector<boost::asio::io_context::executor_type> contexts;
    for (boost::asio::io_context* each : all) contexts.push_back(each->get_executor());
    cenote::per_executor<session> sessions{contexts, connector, {.max = 64}};
    auto s = co_await sessions.async_acquire(boost::asio::use_awaitable);
}
}  // namespace of_asio_connector

/// A coroutine of no framework.
struct task {
    struct promise_type {
        task get_return_object() { return {}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_never final_suspend() noexcept { return {}; }
        void return_void() {}
        void unhandled_exception() {}
    };
};

task co_acquire(cenote::pool<session>& pool, std::stop_token token) {
    auto my_loop = [](std::coroutine_handle<> handle) { handle.resume(); };
    auto conn = co_await pool.co_acquire();
    auto next = co_await pool.co_acquire({.timeout = 50ms, .stop = token}).resumed_by(my_loop);
}

boost::asio::awaitable<void> co_acquire_with_asio(cenote::pool<session>& pool) {
    auto conn = co_await pool.co_acquire();
    cenote::lease<session> next = co_await pool.co_acquire({.timeout = 50ms});
}

void alert(const std::string& name);
void control(cenote::pool<session>& orders, cenote::pool<int>& sessions) {
    std::vector<cenote::pool_control> watched{orders.control(), sessions.control()};
    for (const cenote::pool_control& pool : watched)
        if (pool.stats().waiting > 100) alert(pool.name());
}

auto all_limits_off() {
    return
    cenote::options{.idle_timeout = cenote::forever, .max_uses = cenote::forever}
    ;
}
auto with_a_breaker() {
    return
    cenote::options{.breaker = std::make_shared<cenote::threshold_breaker>()}
    ;
}
void options() {
    cenote::pool<session> pool{connect, {.name = "orders", .max = 32, .min_idle = 4}};
}
void acquire_options(cenote::pool<session>& pool, std::stop_token token, std::error_code& error,
                     std::chrono::steady_clock::time_point deadline) {
    auto conn = pool.acquire({.timeout = 100ms, .task = "checkout"});
    auto next = pool.acquire({.deadline = deadline, .stop = token}, error);
}

void traces(cenote::pool<session>& pool, std::string_view header) {
    auto from = cenote::trace_context::parse(header).value_or(cenote::trace_context{});
    auto conn = pool.acquire({.trace = from});
}

void pool() {
    cenote::pool<session> pool{[] { return session{"db"}; }, {.max = 32}};
    auto s = pool.acquire();      // waits at most options::acquire_timeout, then throws
    s->query("…");                // the lease returns the session when it ends
}

void testing() {
    auto clock = std::make_shared<cenote::manual_clock>();
    cenote::pool<session> pool{connect, {.idle_timeout = 5min, .clock = clock}};
    { auto s = pool.acquire(); }      // opened, used and returned
    clock->advance(5min);             // retired and closed
    assert(pool.stats().closed == 1);
}

void unit_of_work() {
    cenote::pool<session> units{cenote::unit_of_work<session>{[] { return session{"db"}; }},
                                {.max = 8, .max_uses = 1000}};
}

// clang-format on

}  // namespace samples

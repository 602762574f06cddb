// The HTTP server of the dashboard: one thread, limits for each client.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cenote/dashboard.hpp"
#include "watch/control_jobs.hpp"
#include "watch/dashboard_request.hpp"
#include "watch/dashboard_state.hpp"

namespace cenote::detail {

/// Closes a listening socket in the child of a fork, which does not serve it: otherwise the address
/// would stay in use after the end of the parent.
class fork_closed_listener {
public:
    fork_closed_listener() = default;
    ~fork_closed_listener();
    fork_closed_listener(const fork_closed_listener&) = delete;
    fork_closed_listener& operator=(const fork_closed_listener&) = delete;

    /// Call once, with a descriptor that outlives this object. Throws std::bad_alloc if the fork
    /// handler cannot be registered.
    void set(int descriptor);

    // The fork handlers.
    static void lock_all();
    static void unlock_all();
    static void close_all();

private:
    fork_closed_listener* next_ = nullptr;
    int descriptor_ = -1;
};

/// Serves the page, the state and control over HTTP. Everything runs on one thread, which waits
/// neither for a client nor for a pool: commands to pools are control_jobs. No client can exceed
/// the sizes below, the number of connections, or the time for each step.
class dashboard_server {
public:
    static constexpr std::uint32_t header_max = 8192;
    static constexpr std::uint64_t body_max = 4096;

    /// Requires checked options. Throws std::system_error if it cannot listen.
    dashboard_server(const dashboard_options& settings, std::shared_ptr<dashboard_state> shown);
    /// May be called by a control job.
    ~dashboard_server();
    dashboard_server(const dashboard_server&) = delete;
    dashboard_server& operator=(const dashboard_server&) = delete;

    std::uint16_t port() const noexcept { return port_; }
    const std::string& authority() const noexcept { return authority_; }

private:
    struct client;
    class client_registration;
    struct response;
    struct request_parser;

    void listen(const dashboard_options& settings);
    boost::asio::ip::tcp::socket accept(boost::system::error_code& error);
    void run() noexcept;
    boost::asio::awaitable<void> sample_every_second();
    boost::asio::awaitable<void> accept_all();
    boost::asio::awaitable<void> serve(std::shared_ptr<client> one);
    boost::asio::awaitable<boost::system::error_code> read(client* one, request_parser* into);
    boost::asio::awaitable<bool> serve_request(client* one);
    boost::asio::awaitable<bool> send(client* one, response what);
    boost::asio::awaitable<void> linger(client* one);
    void make_room();
    static response refusal(const raw_request& request, const parsed_request& parsed);
    response content(const parsed_request& parsed) const;
    boost::asio::awaitable<response> execute(control_command command);

    std::shared_ptr<dashboard_state> state_;
    access_policy policy_;
    std::size_t max_connections_;
    std::chrono::nanoseconds request_timeout_;
    std::chrono::nanoseconds idle_timeout_;
    boost::asio::ip::tcp protocol_ = boost::asio::ip::tcp::v4();
    std::uint16_t port_ = 0;
    std::string authority_;
    std::list<client*> clients_;  // longest idle first
    boost::asio::io_context context_{1};
    boost::asio::ip::tcp::acceptor acceptor_{context_};
    fork_closed_listener listener_;
    std::optional<control_jobs> jobs_{std::in_place};
    std::thread thread_;
};

}  // namespace cenote::detail

// Serves the dashboard: a thread, and clients that are all alike to it, well-meaning or not.
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
#include "watch/dashboard_errands.hpp"
#include "watch/dashboard_request.hpp"
#include "watch/dashboard_state.hpp"

namespace cenote::detail {

/// A listener that the child of a fork closes: nobody would answer there, and the address stayed
/// taken after the end of its parent.
class listener_of_parent {
public:
    listener_of_parent() = default;
    ~listener_of_parent();
    listener_of_parent(const listener_of_parent&) = delete;
    listener_of_parent& operator=(const listener_of_parent&) = delete;

    /// Ends before this descriptor does. Throws std::bad_alloc if forks cannot be heard of.
    void is(int descriptor);

    static void lock_all();
    static void unlock_all();
    static void close_all();

private:
    listener_of_parent* next_ = nullptr;
    int descriptor_ = -1;
};

/// What no client can exceed: a request of 8 KiB and 4 KiB, one at a time; so many clients; and its
/// time for each step. Everything happens on one thread, and nothing there waits for a client, nor
/// for a pool: what is done to one is an errand.
class dashboard_server {
public:
    static constexpr std::uint32_t header_max = 8192;
    static constexpr std::uint64_t body_max = 4096;

    /// Options as dashboard has checked them. Throws std::system_error if it cannot listen.
    dashboard_server(const dashboard_options& settings, std::shared_ptr<board> shown);
    /// May be called by an errand.
    ~dashboard_server();
    dashboard_server(const dashboard_server&) = delete;
    dashboard_server& operator=(const dashboard_server&) = delete;

    std::uint16_t port() const noexcept { return port_; }
    const std::string& authority() const noexcept { return authority_; }

private:
    struct client;
    class presence;
    struct reply;
    struct request_parser;

    void listen(const dashboard_options& settings);
    boost::asio::ip::tcp::socket accept(boost::system::error_code& error);
    void run() noexcept;
    boost::asio::awaitable<void> look_every_second();
    boost::asio::awaitable<void> accept_all();
    boost::asio::awaitable<void> serve(std::shared_ptr<client> one);
    boost::asio::awaitable<boost::system::error_code> read(client* one, request_parser* into);
    boost::asio::awaitable<bool> serve_request(client* one);
    boost::asio::awaitable<bool> send(client* one, reply what);
    boost::asio::awaitable<void> part(client* one);
    void make_room();
    static reply refusal(const raw_request& request, const asked& what);
    reply answer(const asked& what) const;
    boost::asio::awaitable<reply> carry_out(control_order order);

    std::shared_ptr<board> board_;
    house_rules rules_;
    std::size_t max_connections_;
    std::chrono::nanoseconds request_timeout_;
    std::chrono::nanoseconds idle_timeout_;
    boost::asio::ip::tcp protocol_ = boost::asio::ip::tcp::v4();
    std::uint16_t port_ = 0;
    std::string authority_;
    std::list<client*> clients_;  // who has been silent for longest comes first
    boost::asio::io_context context_{1};
    boost::asio::ip::tcp::acceptor acceptor_{context_};
    listener_of_parent listener_;
    std::optional<errands> errands_{std::in_place};
    std::thread thread_;
};

}  // namespace cenote::detail

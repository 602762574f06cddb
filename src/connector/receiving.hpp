// What the receivers of notifications have in common: one wait for the socket and for the event
// that ends it, and probes while the server is quiet.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "cenote/listening.hpp"
#include "cenote/server_error.hpp"
#include "connector/drive.hpp"

namespace cenote::connector_detail {

/// An epoll descriptor: readable if the event is set, or if the socket is what the steps need.
class socket_or_event {
public:
    explicit socket_or_event(int socket);
    ~socket_or_event();
    socket_or_event(const socket_or_event&) = delete;
    socket_or_event& operator=(const socket_or_event&) = delete;

    void watch(const listening_detail::wake_event& until);
    /// Whether to wait until the socket can be written, too.
    void want_to_write(bool on);
    int descriptor() const noexcept { return epoll_; }

private:
    void control(int operation, int descriptor, unsigned events) const;

    int epoll_;
    int socket_;
    int event_ = -1;
    bool writes_ = false;
};

/// A derived class speaks to one kind of server. A probe is part of the steps, so that neither a
/// notification nor the end of a wait has to wait for its reply.
class receiving : public listening_detail::receiver, protected steps {
public:
    std::optional<notification> receive(listening_detail::wait_limit limit) final;
    boost::asio::awaitable<std::optional<notification>> async_receive(
        listening_detail::wait_limit limit) final;

protected:
    /// The server has accepted the listener.
    void begin(int socket, const listening_detail::subject& to);
    void add(notification one) { found_.push_back(std::move(one)); }
    bool has_found() const noexcept { return !found_.empty(); }
    /// The server has sent something.
    void note_heard() noexcept;
    void note_probe_answered() noexcept;
    bool probing() const noexcept { return probing_; }

    /// Goes on with the probe and reads what has come, by one step's work. Returns what it needs to
    /// go on; never `nothing`. Throws connection_error, unless it has found something first.
    virtual need read() = 0;
    /// Begins a probe, which read() continues.
    virtual void probe() = 0;
    /// The connection is lost. Throws `why`.
    [[noreturn]] virtual void give_up(const connection_error& why) = 0;

private:
    template <class Mode>
    static result_in<Mode, std::optional<notification>> receive_in(
        receiving* on, listening_detail::wait_limit limit);

    need step() final;
    int descriptor() const final { return either_->descriptor(); }

    std::optional<notification> take();
    /// When a probe is due, or its reply.
    instant quiet_until() const noexcept;
    /// The server was quiet for too long.
    void note_quiet();

    std::optional<socket_or_event> either_;
    const listening_detail::wake_event* or_until_ = nullptr;
    std::deque<notification> found_;
    std::chrono::nanoseconds probe_after_{};
    std::chrono::nanoseconds reply_timeout_{};
    instant heard_;  // or the beginning of the probe
    bool probing_ = false;
};

}  // namespace cenote::connector_detail

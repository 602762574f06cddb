// Waits for notifications, and probes a server that is quiet.
#include "connector/receiving.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>
#include <system_error>
#include <unistd.h>

namespace cenote::connector_detail {

using listening_detail::wait_limit;

socket_or_event::socket_or_event(int socket)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC)), socket_(socket) {
    if (epoll_ < 0) throw std::system_error(errno, std::generic_category());
    try {
        control(EPOLL_CTL_ADD, socket_, EPOLLIN);
    } catch (...) {
        ::close(epoll_);
        throw;
    }
}

socket_or_event::~socket_or_event() { ::close(epoll_); }

void socket_or_event::control(int operation, int descriptor, unsigned events) const {
    epoll_event wanted{.events = events, .data = {.fd = descriptor}};
    if (::epoll_ctl(epoll_, operation, descriptor, &wanted) != 0)
        throw std::system_error(errno, std::generic_category());
}

void socket_or_event::watch(const listening_detail::wake_event& until) {
    if (event_ == until.descriptor()) return;
    control(EPOLL_CTL_ADD, until.descriptor(), EPOLLIN);
    event_ = until.descriptor();
}

void socket_or_event::want_to_write(bool on) {
    if (on == writes_) return;
    control(EPOLL_CTL_MOD, socket_, on ? EPOLLIN | EPOLLOUT : EPOLLIN);
    writes_ = on;
}

void receiving::begin(int socket, const listening_detail::subject& to) {
    either_.emplace(socket);
    probe_after_ = to.probe_after;
    reply_timeout_ = to.reply_timeout;
    note_heard();
}

void receiving::note_heard() noexcept { heard_ = std::chrono::steady_clock::now(); }

void receiving::note_probe_answered() noexcept {
    probing_ = false;
    note_heard();
}

instant receiving::quiet_until() const noexcept {
    auto limit = probing_ ? reply_timeout_ : probe_after_;
    return limit > instant::max() - heard_ ? instant::max() : heard_ + limit;
}

void receiving::note_quiet() {
    if (std::chrono::steady_clock::now() < quiet_until()) return;
    if (probing_)
        give_up(exchange_timeout("cenote: the server did not reply to the probe of a listener"));
    probe();
    probing_ = true;
    note_heard();
    static_cast<void>(read());  // sends it, even if this wait is over
}

/// Reads before it waits: the end of an earlier wait may have left something.
need receiving::step() {
    if (has_found() || or_until_->is_set()) return need::nothing;
    need wanted = read();
    if (has_found()) return need::nothing;
    if (wanted == need::a_turn) return wanted;
    either_->want_to_write(wanted != need::to_read);
    return need::to_read;
}

std::optional<notification> receiving::take() {
    if (!has_found()) return std::nullopt;
    std::optional<notification> first(std::move(found_.front()));
    found_.pop_front();
    return first;
}

template <class Mode>
result_in<Mode, std::optional<notification>> receiving::receive_in(receiving* on,
                                                                   wait_limit limit) {
    on->or_until_ = limit.or_until;
    on->either_->watch(*limit.or_until);
    for (;;) {
        try {
            co_await Mode::drive(*on, std::min(limit.until, on->quiet_until()));
            co_return on->take();
        } catch (const exchange_timeout&) {
            on->note_quiet();
        }
        if (on->has_found()) continue;
        if (std::chrono::steady_clock::now() >= limit.until) co_return std::nullopt;
    }
}

std::optional<notification> receiving::receive(wait_limit limit) {
    return receive_in<blocking>(this, limit).get();
}

boost::asio::awaitable<std::optional<notification>> receiving::async_receive(wait_limit limit) {
    return receive_in<awaited>(this, limit);
}

}  // namespace cenote::connector_detail

// Waiting between steps: poll() for threads, Boost.Asio for coroutines.
#include "connector/drive.hpp"

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <cerrno>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/epoll.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "cenote/server_error.hpp"

namespace cenote::connector_detail {

namespace asio = boost::asio;

namespace {

[[noreturn]] void throw_timeout(const steps& s) {
    throw exchange_timeout(std::string("cenote: timed out waiting for ") + s.expected());
}

short events_of(need n) {
    switch (n) {
        case need::to_read: return POLLIN;
        case need::to_write: return POLLOUT;
        case need::to_do_either:
        case need::a_turn:
        case need::nothing: break;
    }
    return POLLIN | POLLOUT;
}

bool is_over(instant deadline) {
    return deadline != instant::max() && std::chrono::steady_clock::now() >= deadline;
}

/// Rounded up: poll() counts milliseconds and must not return before the deadline.
int poll_time(instant deadline) {
    if (deadline == instant::max()) return -1;
    auto left = deadline - std::chrono::steady_clock::now();
    auto ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    return static_cast<int>(std::clamp<std::int64_t>(ms, 0, std::numeric_limits<int>::max()));
}

/// Waits for a descriptor in a coroutine, until a deadline. The timer may fire at any moment on
/// another thread of the executor, so every use of the descriptor holds the lock.
class watch : public std::enable_shared_from_this<watch> {
public:
    watch(const asio::any_io_executor& where, int descriptor)
        : socket_(where, descriptor), timer_(where) {}
    ~watch() = default;
    watch(const watch&) = delete;
    watch& operator=(const watch&) = delete;

    void begin(instant deadline) {
        if (deadline == instant::max()) return;
        std::lock_guard lock(mutex_);
        timer_.expires_at(deadline);
        timer_.async_wait([me = shared_from_this()](const boost::system::error_code& ended) {
            std::lock_guard lock_of_handler(me->mutex_);
            if (ended || me->over_) return;
            me->late_ = true;
            me->socket_.cancel();
        });
    }
    /// Releases the descriptor, which belongs to the steps. The timer's handler may run later.
    void end() {
        std::lock_guard lock(mutex_);
        over_ = true;
        boost::system::error_code none;
        timer_.cancel(none);
        socket_.release();
    }
    bool late() {
        std::lock_guard lock(mutex_);
        return late_;
    }

    /// Begins a wait under the lock, with the coroutine's handler.
    template <class Token>
    auto ready(asio::posix::stream_descriptor::wait_type what, Token&& token) {
        auto begin = [this](auto handler, asio::posix::stream_descriptor::wait_type w) {
            std::lock_guard lock(mutex_);
            socket_.async_wait(w, std::move(handler));
            if (late_) socket_.cancel();
        };
        return asio::async_initiate<Token, void(boost::system::error_code)>(begin, token, what);
    }

private:
    std::mutex mutex_;
    asio::posix::stream_descriptor socket_;
    asio::steady_timer timer_;
    bool late_ = false;
    bool over_ = false;
};

/// An epoll descriptor that is readable when the socket can be read or written: waits for either.
class either {
public:
    explicit either(int socket) : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
        epoll_event wanted{.events = EPOLLIN | EPOLLOUT, .data = {.fd = socket}};
        if (epoll_ >= 0 && ::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &wanted) == 0) return;
        int error = errno;
        if (epoll_ >= 0) ::close(epoll_);
        throw std::system_error(error, std::generic_category());
    }
    ~either() { ::close(epoll_); }
    either(const either&) = delete;
    either& operator=(const either&) = delete;

    int descriptor() const { return epoll_; }

private:
    int epoll_;
};

/// Ends the watch with the scope, also when the coroutine is destroyed early.
class watching {
public:
    watching(const asio::any_io_executor& where, int descriptor, instant deadline)
        : it_(std::make_shared<watch>(where, descriptor)) {
        it_->begin(deadline);
    }
    ~watching() { it_->end(); }
    watching(const watching&) = delete;
    watching& operator=(const watching&) = delete;

    watch* operator->() const { return it_.get(); }

private:
    std::shared_ptr<watch> it_;
};

}  // namespace

instant deadline_after(std::chrono::nanoseconds time) noexcept {
    instant now = std::chrono::steady_clock::now();
    return time > instant::max() - now ? instant::max() : now + std::max(time, time.zero());
}

std::suspend_never blocking::drive(steps& s, instant deadline) {
    for (need n = s.step(); n != need::nothing; n = s.step()) {
        if (is_over(deadline)) throw_timeout(s);
        if (n == need::a_turn) continue;
        pollfd waited{.fd = s.descriptor(), .events = events_of(n), .revents = 0};
        int ready = ::poll(&waited, 1, poll_time(deadline));
        if (ready < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category());
        if (ready == 0 && is_over(deadline)) throw_timeout(s);
    }
    return {};
}

namespace {

/// Lets the event loop run other handlers.
asio::awaitable<void> yield_turn() {
    asio::any_io_executor where = co_await asio::this_coro::executor;
    co_await asio::post(where, asio::use_awaitable);
}

/// Waits once. False: the deadline has passed. The watch ends here, before the next step: a step
/// may close the descriptor, and the loop must not still watch its number, which another socket may
/// get.
asio::awaitable<bool> wait_once(const steps* s, need n, instant deadline) {
    using descriptor = asio::posix::stream_descriptor;
    asio::any_io_executor where = co_await asio::this_coro::executor;
    std::optional<either> both;
    if (n == need::to_do_either) both.emplace(s->descriptor());
    watching socket(where, both ? both->descriptor() : s->descriptor(), deadline);
    auto what = n == need::to_write ? descriptor::wait_write : descriptor::wait_read;
    boost::system::error_code error;
    auto token = asio::redirect_error(asio::use_awaitable, error);
    co_await socket->ready(what, token);
    if (!error) co_return true;
    if (socket->late()) co_return false;
    throw boost::system::system_error(error);
}

asio::awaitable<void> drive_on_executor(steps* s, instant deadline) {
    for (need n = s->step(); n != need::nothing; n = s->step()) {
        if (is_over(deadline)) throw_timeout(*s);
        if (n == need::a_turn) co_await yield_turn();
        else if (!co_await wait_once(s, n, deadline)) throw_timeout(*s);
    }
}

}  // namespace

asio::awaitable<void> awaited::drive(steps& s, instant deadline) {
    return drive_on_executor(&s, deadline);
}

}  // namespace cenote::connector_detail

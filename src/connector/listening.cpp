// The listener: waits for notifications, and replaces lost connections.
#include "cenote/listening.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <sys/eventfd.h>
#include <system_error>
#include <type_traits>
#include <unistd.h>

#include "cenote/error.hpp"
#include "cenote/server_error.hpp"
#include "connector/drive.hpp"

namespace cenote::listening_detail {

using cenote::detail::this_process;
using connector_detail::awaited;
using connector_detail::blocking;
using connector_detail::deadline_after;
using connector_detail::need;
using connector_detail::result_in;

// The event.

namespace {

int new_descriptor() {
    int made = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0) throw std::system_error(errno, std::generic_category());
    return made;
}

}  // namespace

wake_event::wake_event() : descriptor_(new_descriptor()) {}
wake_event::~wake_event() { ::close(descriptor()); }

void wake_event::set() noexcept {
    set_.store(true, std::memory_order_release);
    std::uint64_t one = 1;
    static_cast<void>(!::write(descriptor(), &one, sizeof one));
}

void wake_event::clear() noexcept {
    set_.store(false, std::memory_order_release);
    std::uint64_t count = 0;
    static_cast<void>(!::read(descriptor(), &count, sizeof count));
}

void wake_event::renew() {
    int made = new_descriptor();
    ::close(descriptor_.exchange(made));
    set_.store(false, std::memory_order_release);
}

// The listener.

listener::listener(std::shared_ptr<const subject> to, std::unique_ptr<source> from)
    : to_(std::move(to)), process_(this_process), from_(std::move(from)) {}

/// A stop() that comes from another thread meanwhile has nothing to do; one that came before ends
/// before the source does.
listener::~listener() { state_.fetch_or(ended); }

/// One wait. Returns the connection at its end if the stream was stopped meanwhile.
class listener::in_use {
public:
    explicit in_use(listener& of) : of_(of) {
        of.leave_parent();
        std::uint8_t before = of.state_.fetch_or(waiting);
        if ((before & waiting) != 0)
            throw std::logic_error(
                "cenote: another wait for notifications is under way; use one at a time");
        owns_ = (before & ended) == 0;
    }
    ~in_use() {
        std::uint8_t before = of_.state_.fetch_and(static_cast<std::uint8_t>(~waiting));
        if (owns_ && (before & ended) != 0) of_.from_->release(nullptr);
    }
    in_use(const in_use&) = delete;
    in_use& operator=(const in_use&) = delete;

    /// The stream has ended before.
    bool too_late() const noexcept { return !owns_; }

private:
    listener& of_;
    bool owns_ = false;
};

void listener::stop() noexcept {
    bool here = process_.load() == this_process;
    std::uint8_t before = state_.fetch_or(ended);
    if (!here || (before & ended) != 0) return;
    if ((before & waiting) == 0) return from_->release(nullptr);
    stopping_.request_stop();
    wake_.set();
}

/// In the child of a fork: the connection and the descriptor are the parent's, and threads that
/// were waiting do not exist.
void listener::leave_parent() {
    if (process_.load() == this_process) return;
    wake_.renew();
    stopping_ = std::stop_source();
    state_.fetch_and(ended);
    from_->release(nullptr);
    away_ = true;
    process_.store(this_process);
}

acquire_options listener::how_to_acquire(const std::stop_token& stop,
                                         instant until) const noexcept {
    acquire_options how{.stop = stop, .task = to_->task, .leak_after = forever};
    if (until == instant::max()) how.timeout = std::chrono::nanoseconds::max();
    else how.deadline = until;
    return how;
}

void listener::note_lost(const std::exception_ptr& why) noexcept {
    away_ = true;
    from_->release(why);
}

namespace {

/// Waits for the event alone.
class pause final : public connector_detail::steps {
public:
    explicit pause(const wake_event& until) : until_(until) {}

    need step() override { return until_.is_set() ? need::nothing : need::to_read; }
    int descriptor() const override { return until_.descriptor(); }

private:
    const wake_event& until_;
};

/// The time between attempts that fail although the pool has opened a connection, or that the pool
/// refuses.
class pacing {
public:
    std::chrono::nanoseconds after_failure() {
        return std::exchange(next_, std::min(2 * next_, std::chrono::nanoseconds(longest)));
    }
    static std::chrono::nanoseconds after_refusal(const pool_error& e) {
        return std::clamp<std::chrono::nanoseconds>(e.retry_after(), shortest, longest);
    }

private:
    static constexpr std::chrono::milliseconds shortest{100};
    static constexpr std::chrono::seconds longest{5};

    std::chrono::nanoseconds next_ = shortest;
};

/// Whether a later attempt may succeed.
bool passes(errc code) {
    return code == errc::unavailable || code == errc::line_full || code == errc::shed;
}

}  // namespace

/// The waits, written once for both ways to wait.
template <class Mode>
struct listener::waits {
    template <class T>
    using result = result_in<Mode, T>;

    static result<std::optional<notification>> receive(listener* of, instant until) {
        wait_limit limit{until, &of->wake_};
        if constexpr (std::is_same_v<Mode, awaited>) {
            co_return co_await of->from_->receiver()->async_receive(limit);
        } else {
            co_return of->from_->receiver()->receive(limit);
        }
    }

    static result<void> connect(listener* of, const std::stop_token* stop, instant until) {
        acquire_options how = of->how_to_acquire(*stop, until);
        if constexpr (std::is_same_v<Mode, awaited>) {
            co_await of->from_->async_connect(of->to_, how);
        } else {
            of->from_->connect(of->to_, how);
            co_return;
        }
    }

    /// One attempt. Returns how long to pause before the next one; zero if it has succeeded or the
    /// wait is over.
    static result<std::chrono::nanoseconds> try_to_connect(listener* of,
                                                           const std::stop_token* stop,
                                                           instant until, pacing* pace) {
        try {
            co_await connect(of, stop, until);
        } catch (const pool_error& e) {
            errc code{e.code().value()};
            if (code == errc::closed) of->state_.fetch_or(ended);
            else if (passes(code)) co_return pacing::after_refusal(e);
            else if (code == errc::canceled ? !stop->stop_requested() : code != errc::timed_out)
                throw;
        } catch (const connection_error&) {
            co_return pace->after_failure();
        }
        co_return std::chrono::nanoseconds(0);
    }

    /// Tries until there is a connection, or the wait is over.
    static result<void> reconnect(listener* of, const std::stop_token* stop, instant until) {
        pacing pace;
        for (;;) {
            std::chrono::nanoseconds left = co_await try_to_connect(of, stop, until, &pace);
            if (left == left.zero() || of->wake_.is_set()) co_return;
            pause before_next(of->wake_);
            instant end = std::min(until, deadline_after(left));
            try {
                co_await Mode::drive(before_next, end);
                co_return;
            } catch (const exchange_timeout&) {
                if (end == until) co_return;
            }
        }
    }

    /// `stop`: without a state if only the stream's end counts.
    static result<std::optional<notification>> next(std::shared_ptr<listener> of, instant until,
                                                    std::stop_token stop) {
        in_use now(*of);
        if (!stop.stop_possible()) stop = of->stopping_.get_token();
        while (!now.too_late() && !of->stopped() && !of->wake_.is_set()) {
            if (of->from_->receiver() == nullptr) {
                of->away_ = true;
                co_await reconnect(of.get(), &stop, until);
                if (of->from_->receiver() == nullptr) break;
            }
            if (std::exchange(of->away_, false)) {
                notification gap;
                gap.missed = true;
                co_return gap;
            }
            std::exception_ptr lost;
            try {
                co_return co_await receive(of.get(), until);
            } catch (const connection_error&) {
                lost = std::current_exception();
            }
            of->note_lost(lost);
        }
        co_return std::nullopt;
    }
};

void listener::open(const std::shared_ptr<listener>& one) {
    in_use now(*one);
    std::stop_token stop = one->stopping_.get_token();
    acquire_options how{.stop = stop, .task = one->to_->task, .leak_after = forever};
    one->from_->connect(one->to_, how);
}

asio::awaitable<void> listener::async_open(std::shared_ptr<listener> one) {
    in_use now(*one);
    std::stop_token stop = one->stopping_.get_token();
    acquire_options how{.stop = stop, .task = one->to_->task, .leak_after = forever};
    co_await one->from_->async_connect(one->to_, how);
}

std::optional<notification> listener::next(const std::shared_ptr<listener>& of, instant until,
                                           const std::stop_token& stop) {
    if (!stop.stop_possible()) return waits<blocking>::next(of, until, {}).get();
    of->leave_parent();
    std::stop_source either;
    std::optional<notification> found;
    {
        std::stop_callback by_stream(of->stopping_.get_token(), [&] { either.request_stop(); });
        std::stop_callback by_caller(stop, [&] {
            either.request_stop();
            of->wake_.set();
        });
        found = waits<blocking>::next(of, until, either.get_token()).get();
    }
    of->wake_.clear();
    return found;
}

asio::awaitable<std::optional<notification>> listener::async_next(
    std::shared_ptr<listener> of, std::optional<std::chrono::nanoseconds> timeout) {
    if (of == nullptr) co_return std::nullopt;
    instant until = timeout ? deadline_after(*timeout) : instant::max();
    std::optional<notification> found = co_await waits<awaited>::next(of, until, {});
    co_return found;
}

}  // namespace cenote::listening_detail

namespace cenote {

using listening_detail::instant;
using listening_detail::listener;

notifications& notifications::operator=(notifications&& other) noexcept {
    if (this != &other) {
        stop();
        by_ = std::move(other.by_);
    }
    return *this;
}

std::optional<notification> notifications::next() {
    if (by_ == nullptr) return std::nullopt;
    return listener::next(by_, instant::max(), {});
}

std::optional<notification> notifications::next(std::chrono::nanoseconds timeout) {
    if (by_ == nullptr) return std::nullopt;
    return listener::next(by_, connector_detail::deadline_after(timeout), {});
}

std::optional<notification> notifications::next(const std::stop_token& stop) {
    if (by_ == nullptr) return std::nullopt;
    return listener::next(by_, instant::max(), stop);
}

boost::asio::awaitable<std::optional<notification>> notifications::awaited_next(
    std::optional<std::chrono::nanoseconds> timeout) {
    return listener::async_next(by_, timeout);
}

void notifications::stop() noexcept {
    if (by_ != nullptr) by_->stop();
}

bool notifications::stopped() const noexcept { return by_ == nullptr || by_->stopped(); }

pool_control notifications::control() const { return by_->control(); }

}  // namespace cenote

// Awaiting a lease, from any coroutine and without a framework.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <optional>
#include <source_location>
#include <stop_token>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "cenote/detail/gate.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/lease.hpp"
#include "cenote/pool.hpp"

namespace cenote {

/// Resumes a coroutine on the thread that let it go on: that of the releasing borrower, or a thread
/// of the pool. Coroutines that become ready while one runs are resumed after it, by the same loop,
/// so a chain of hand-overs of any length needs the stack of one.
struct resume_inline {};

/// What resumes coroutines: called once for each, with a handle to resume wherever and whenever it
/// likes. It must not throw. If it also has `retract(handle)`, which takes back a handle that was
/// not resumed yet, a coroutine may also be destroyed after it was handed over.
template <class R>
concept resumer = std::copy_constructible<R> && std::invocable<R&, std::coroutine_handle<>>;

namespace detail {

class coroutine_waiter;

/// Whose handle this thread is giving away, and where to note that it has been resumed.
struct notifying {
    const coroutine_waiter* who = nullptr;
    bool* gone = nullptr;
};
inline constinit thread_local notifying notifying_here{};

/// A waiting coroutine. Lives in the coroutine's frame.
class coroutine_waiter : public waiter {
public:
    ~coroutine_waiter() override = default;

protected:
    explicit coroutine_waiter(gate* g) noexcept : gate_(g) { asynchronous = true; }

    /// Gives the handle to a resumer, which may well resume it before it returns.
    template <class Resume>
    void hand_over(Resume& resume) noexcept {
        bool gone = false;
        notifying outer = std::exchange(notifying_here, {this, &gone});
        // A copy, if it can be had: the original goes with the frame, which may be in the call.
        using held =
            std::conditional_t<std::is_nothrow_copy_constructible_v<Resume>, Resume, Resume&>;
        held how(resume);
        how(frame_);
        if (!gone) handed_over_.store(true, std::memory_order_release);  // the last touch
        notifying_here = outer;
    }

    /// Whoever notifies must have let go before the frame may go away.
    void wait_for_hand_over() const noexcept {
        if (notifying_here.who == this) {
            *notifying_here.gone = true;
            notifying_here = {};
            return;
        }
        // In the child of a fork whoever notifies may be a thread that is gone.
        process_number here = this_process;
        while (!handed_over_.load(std::memory_order_acquire) && made_in_ == here)
            std::this_thread::yield();
    }

    /// Resumes it, or leaves that to the loop further up on this stack.
    void hand_over(resume_inline&) noexcept;
    /// Takes it back from the loop of this thread.
    void retract_inline() noexcept;

    [[noreturn]] void fail() {
        struct forgets {
            coroutine_waiter& me;
            ~forgets() { me.forget(); }
        };
        [[maybe_unused]] forgets at_the_end{*this};
        gate_->refused(error);
        gate_->fail(error, arrived, wants.queues);
    }

    void fail(std::error_code& why) noexcept {
        gate_->refused(error);
        why = error;
        forget();
    }
    void forget() noexcept {
        if (std::exchange(keeps_keeper, false)) gate_->forget();
    }

    gate* gate_;
    std::coroutine_handle<> frame_;

private:
    struct inline_loop;

    const process_number made_in_ = this_process;
    std::atomic<bool> handed_over_{false};
};

}  // namespace detail

/// A lease that a coroutine is about to await:
///
///     auto held = co_await pool.co_acquire();
///     auto held = co_await pool.co_acquire_for(50ms).stopped_by(token).resumed_by(my_loop);
///
/// The waiter lives in the coroutine's frame: waiting allocates nothing. Destroying the coroutine
/// while it waits ends the wait (see `resumer` for when); so do the deadline, the stop token and
/// the end of the pool. Throws what pool::acquire throws, unless `error_to` says otherwise.
///
/// Await it where it is made. It may be awaited once.
template <class T, class Resume>
class [[nodiscard]] awaited {
public:
    /// Ends the wait with `canceled` when `stop` is triggered.
    [[nodiscard]] awaited stopped_by(std::stop_token stop) && {
        stop_ = std::move(stop);
        return std::move(*this);
    }

    /// Does not throw pool errors: `error` says how it went, and the lease is empty if not well.
    [[nodiscard]] awaited error_to(std::error_code& error) && {
        error_ = &error;
        return std::move(*this);
    }

    /// Has `how` resume the coroutine: a callable that is given its handle. Pass a loop or
    /// scheduler by std::ref, or a pointer in a lambda.
    template <resumer R>
    [[nodiscard]] awaited<T, R> resumed_by(R how) && {
        awaited<T, R> other({gate_, detail::awaited_thing::lease, timeout_, deadline_, site_, how_},
                            std::move(how));
        other.stop_ = std::move(stop_);
        other.error_ = error_;
        return other;
    }

    class awaiter;
    awaiter operator co_await() && { return awaiter(std::move(*this)); }

private:
    friend class pool<T>;
    template <class, class>
    friend class awaited;

    explicit awaited(const detail::awaited_wish& wish, Resume how = {})
        : gate_(wish.from),
          timeout_(wish.timeout),
          deadline_(wish.deadline),
          site_(wish.site),
          how_(wish.how),
          resume_(std::move(how)) {}

    detail::gate* gate_;
    std::chrono::nanoseconds timeout_;
    std::chrono::steady_clock::time_point deadline_;
    std::source_location site_;
    detail::manner how_;
    std::stop_token stop_;
    std::error_code* error_ = nullptr;
    [[no_unique_address]] Resume resume_;
};

template <class T, class Resume>
class awaited<T, Resume>::awaiter final : detail::coroutine_waiter {
public:
    explicit awaiter(awaited&& a)
        : coroutine_waiter(a.gate_),
          stop_(std::move(a.stop_)),
          error_(a.error_),
          resume_(std::move(a.resume_)) {
        site = a.site_;
        wants = a.how_;
        timeout = a.timeout_;
        deadline = a.deadline_;
    }
    ~awaiter() override {
        if (waiting_) leave();
    }

    bool await_ready() noexcept {
        if (gate_->looks_elsewhere() || gate_->lane_is_shut()) return false;
        got = gate_->take(site, wants, 0);
        return got != nullptr;
    }

    bool await_suspend(std::coroutine_handle<> frame) {
        frame_ = frame;
        if (stop_.stop_possible()) on_stop_.emplace(stop_, canceler{*this});
        waiting_ = true;
        try {
            if (gate_->ask(*this)) return true;  // from here on it may be gone
        } catch (...) {
            waiting_ = false;
            throw;
        }
        waiting_ = false;
        return false;
    }

    lease<T> await_resume() {
        if (waiting_) wait_for_hand_over();
        waiting_ = false;
        on_stop_.reset();
        if (error_ != nullptr) error_->clear();
        if (got != nullptr) return detail::lease_maker::of<T>(std::exchange(got, nullptr));
        if (error_ == nullptr) fail();
        fail(*error_);
        return {};
    }

private:
    struct canceler {
        awaiter& me;
        void operator()() const noexcept { me.gate_->cancel(me); }
    };

    void notify() noexcept override { hand_over(resume_); }

    /// The frame goes away while it waits.
    void leave() noexcept {
        on_stop_.reset();
        if (gate_->withdraw(*this)) return;
        if (!detail::gate::take_back(*this)) {
            wait_for_hand_over();
            if constexpr (std::same_as<Resume, resume_inline>) retract_inline();
            else if constexpr (requires { resume_.retract(frame_); }) resume_.retract(frame_);
        }
        if (got != nullptr) gate_->put_unused(got);
        forget();
    }

    std::stop_token stop_;
    std::optional<std::stop_callback<canceler>> on_stop_;
    std::error_code* error_;
    bool waiting_ = false;
    [[no_unique_address]] Resume resume_;
};

template <class T>
awaited<T> pool<T>::co_acquire(std::source_location at) {
    return awaited<T>({gate_, detail::awaited_thing::lease, gate_->acquire_timeout(), {}, at});
}

template <class T>
awaited<T> pool<T>::co_acquire(const acquire_options& how, std::source_location at) {
    auto timeout =
        std::max(how.timeout.value_or(gate_->acquire_timeout()), std::chrono::nanoseconds{0});
    return awaited<T>(
        {gate_, detail::awaited_thing::lease, timeout, {}, at, gate_->manner_of(how)});
}

template <class T>
awaited<T> pool<T>::co_acquire_for(std::chrono::nanoseconds timeout, std::source_location at) {
    return awaited<T>({gate_,
                       detail::awaited_thing::lease,
                       std::max(timeout, std::chrono::nanoseconds{0}),
                       {},
                       at});
}

template <class T>
awaited<T> pool<T>::co_acquire_until(std::chrono::steady_clock::time_point deadline,
                                     std::source_location at) {
    return awaited<T>(
        {gate_, detail::awaited_thing::lease, std::chrono::nanoseconds{-1}, deadline, at});
}

}  // namespace cenote

// Awaiting a lease, from any coroutine and without a framework.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <source_location>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cenote/detail/gate.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/detail/waiter.hpp"
#include "cenote/lease.hpp"
#include "cenote/pool.hpp"

namespace cenote {

/// What resumes coroutines: called once for each, with a handle to resume wherever and whenever it
/// likes. It must not throw. If it also has `retract(handle)`, which takes back a handle that was
/// not resumed yet, a coroutine may also be destroyed after it was handed over.
template <class R>
concept resumer = std::copy_constructible<R> && std::invocable<R&, std::coroutine_handle<>>;

namespace detail {

class coroutine_waiter;
template <class T, class Handler>
class asio_wait;
template <class T, class Token>
struct asio_start;

/// Whose handle this thread is giving away; null from when it has been resumed.
inline constinit thread_local const coroutine_waiter* notifying_here = nullptr;

/// How a waiting coroutine goes on, with what lies in the waiter's room for that: a resumer, or
/// what Asio completes. Null: there is nothing to do.
struct resume_way {
    void (*go_on)(coroutine_waiter&) noexcept;
    void (*retract)(coroutine_waiter&) noexcept;
    void (*move)(void* to, void* from) noexcept = nullptr;
    void (*destroy)(void* what) noexcept = nullptr;
    void (*rethrow)(void* what) = nullptr;  // what asking threw, where it could not be thrown on
};

/// A waiting coroutine. Lives in the coroutine's frame, from the beginning: nothing is copied
/// before it waits.
class coroutine_waiter : public waiter {
public:
    ~coroutine_waiter() override {
        if (way_->destroy != nullptr) way_->destroy(room_);
    }

    bool await_ready() noexcept {
        if (gate_->looks_elsewhere() || gate_->lane_is_shut()) return false;
        got = gate_->take(site, wants, 0);
        return got != nullptr;
    }

    bool await_suspend(std::coroutine_handle<> frame) {
        frame_ = frame.address();
        waits_in_ = this_process;
        listen();
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

protected:
    /// What a way of going on needs: a small callable, or an operation of Asio.
    static constexpr std::size_t room_size = 88;

    explicit coroutine_waiter(const awaited_wish& wish) noexcept : gate_(wish.from) {
        site = wish.site;
        wants = wish.how;
        deadline = wish.deadline;
        timeout = wish.timeout;
        asynchronous = true;
    }
    /// Before `other` is awaited.
    coroutine_waiter(coroutine_waiter&& other) noexcept
        : gate_(other.gate_), error_to_(other.error_to_) {
        if (other.stop_) stop_.emplace(std::move(other.stop_->token));
        site = other.site;
        wants = other.wants;
        deadline = other.deadline;
        timeout = other.timeout;
        asynchronous = true;
        if (other.way_->move != nullptr) other.way_->move(room_, other.room_);
        way_ = other.way_;
    }

    template <class Resume>
    void go_on_with(Resume&& how) {
        using type = std::remove_cvref_t<Resume>;
        static_assert(sizeof(type) <= room_size && alignof(type) <= alignof(void*),
                      "cenote: pass a large resumer by std::ref, or a pointer to it in a lambda");
        if (way_ != &inline_way && way_->destroy != nullptr) way_->destroy(room_);
        way_ = &inline_way;  // if the next line throws
        ::new (room_) type(std::forward<Resume>(how));
        way_ = &way_with<type>;
    }

    void stop_with(std::stop_token token) {
        stop_.reset();
        if (token.stop_possible()) stop_.emplace(std::move(token));
    }
    /// From now on the stop token ends the wait.
    void listen() {
        if (stop_) [[unlikely]]
            start_listening();
    }

    /// What the wait brought, null if nothing: then `error_to_` was told why. Throws the reason if
    /// nobody wants to be told.
    resource* take_out() {
        if (waiting_ && !handed_over_.load(std::memory_order_acquire)) wait_for_hand_over();
        waiting_ = false;
        if (stop_) stop_->called.reset();
        if (error_to_ != nullptr) error_to_->clear();
        if (got != nullptr) [[likely]]
            return std::exchange(got, nullptr);
        refuse();
        return nullptr;
    }

    bool waiting() const noexcept { return waiting_; }
    /// The frame goes away while it waits. Not for the destructor of this class: by then another
    /// thread may be about to call notify().
    void leave() noexcept;

    /// The wait is over and nobody takes what it brought.
    void abandon() noexcept {
        if (stop_) stop_->called.reset();  // before the pool may be gone
        if (got != nullptr) gate_->put_unused(std::exchange(got, nullptr));
        forget();
    }

    gate* gate_;
    const resume_way* way_ = &inline_way;
    std::error_code* error_to_ = nullptr;
    alignas(void*) std::byte room_[room_size];

private:
    struct inline_loop;
    struct canceler {
        coroutine_waiter& me;
        void operator()() const noexcept { me.gate_->cancel(me); }
    };

    template <class Resume>
    static Resume& resumer_of(coroutine_waiter& w) noexcept {
        return *std::launder(reinterpret_cast<Resume*>(w.room_));
    }
    template <class Resume>
    static const resume_way way_with;
    static const resume_way inline_way;
    static void resume_inline(coroutine_waiter& me) noexcept;
    static void retract_inline(coroutine_waiter& me) noexcept;

    void notify() noexcept final { way_->go_on(*this); }

    /// Gives the handle to a resumer, which may well resume it before it returns.
    template <class Resume>
    void hand_over(Resume& resume) noexcept {
        const coroutine_waiter* outer = std::exchange(notifying_here, this);
        // A copy, if it can be had: the original goes with the frame, which may be in the call.
        using held =
            std::conditional_t<std::is_nothrow_copy_constructible_v<Resume>, Resume, Resume&>;
        held how(resume);
        how(handle());
        // Otherwise it is gone.
        if (notifying_here == this)
            handed_over_.store(true, std::memory_order_release);  // the last touch
        notifying_here = outer;
    }

    /// Not inlined: few waits can be stopped, and the others need no registers for it.
    [[gnu::noinline]] void start_listening() {
        stop_->called.emplace(stop_->token, canceler{*this});
    }

    /// Whoever notifies must have let go before the frame may go away.
    void wait_for_hand_over() const noexcept;
    /// Throws why there is no lease, or tells `error_to_`.
    void refuse();
    void forget() noexcept {
        if (std::exchange(keeps_keeper, false)) gate_->forget();
    }

    std::coroutine_handle<> handle() const noexcept {
        return std::coroutine_handle<>::from_address(frame_);
    }

    struct stopping {
        explicit stopping(std::stop_token t) noexcept : token(std::move(t)) {}

        std::stop_token token;
        std::optional<std::stop_callback<canceler>> called;
    };

    void* frame_;                   // of a coroutine; set when it waits
    std::optional<stopping> stop_;  // only if something can stop it
    bool waiting_ = false;          // and its frame is to be resumed through its handle
    std::atomic<bool> handed_over_{false};
    process_number waits_in_;  // set when it waits
};

/// Resumes it on this thread, or leaves that to the loop further up on this stack.
inline constexpr resume_way coroutine_waiter::inline_way = {.go_on = &resume_inline,
                                                            .retract = &retract_inline};

template <class Resume>
const resume_way coroutine_waiter::way_with = {
    .go_on = [](coroutine_waiter& w) noexcept { w.hand_over(resumer_of<Resume>(w)); },
    .retract =
        [](coroutine_waiter& w) noexcept {
            if constexpr (requires(Resume& r) { r.retract(w.handle()); })
                resumer_of<Resume>(w).retract(w.handle());
        },
    .move = [](void* to,
               void* from) noexcept { ::new (to) Resume(std::move(*static_cast<Resume*>(from))); },
    .destroy = std::is_trivially_destructible_v<Resume>
                   ? nullptr
                   : +[](void* what) noexcept { std::destroy_at(static_cast<Resume*>(what)); },
    .rethrow = nullptr};

}  // namespace detail

/// A lease that a coroutine is about to await:
///
///     auto held = co_await pool.co_acquire();
///     auto held = co_await pool.co_acquire_for(50ms).stopped_by(token).resumed_by(my_loop);
///
/// It is the waiter, and lives in the coroutine's frame: waiting allocates nothing. Destroying the
/// coroutine while it waits ends the wait (see `resumer` for when); so do the deadline, the stop
/// token and the end of the pool. Throws what pool::acquire throws, unless `error_to` says
/// otherwise.
///
/// With <cenote/asio.hpp> also coroutines of Boost.Asio can await it: they go on on their executor.
///
/// Await it where it is made. It may be awaited once.
template <class T>
class [[nodiscard]] awaited final : detail::coroutine_waiter {
public:
    explicit awaited(const detail::awaited_wish& wish) noexcept : coroutine_waiter(wish) {}
    /// Before it is awaited.
    awaited(awaited&&) noexcept = default;
    ~awaited() override {
        if (waiting()) leave();
    }

    /// Ends the wait with `canceled` when `stop` is triggered.
    [[nodiscard]] awaited&& stopped_by(std::stop_token stop) && {
        stop_with(std::move(stop));
        return std::move(*this);
    }

    /// Does not throw pool errors: `code` says how it went, and the lease is empty if not well.
    [[nodiscard]] awaited&& error_to(std::error_code& code) && {
        error_to_ = &code;
        return std::move(*this);
    }

    /// Has `how` resume the coroutine: a callable that is given its handle. Pass a loop or
    /// scheduler by std::ref, or a pointer in a lambda. Coroutines of Asio need none.
    template <resumer R>
    [[nodiscard]] awaited&& resumed_by(R how) && {
        go_on_with(std::move(how));
        return std::move(*this);
    }

    class awaiter;
    awaiter operator co_await() && noexcept { return awaiter(*this); }

    /// What Asio calls for its own coroutines, with <cenote/asio.hpp>.
    template <class Token, class Start = detail::asio_start<T, Token>>
    auto operator()(Token&& token) && -> typename Start::result {
        return Start::with(std::forward<Token>(token), *this);
    }

private:
    template <class, class>
    friend class detail::asio_wait;
};

/// Awaits it where it is: g++ would move what it awaits.
template <class T>
class awaited<T>::awaiter {
public:
    explicit awaiter(awaited& where) noexcept : where_(where) {}

    bool await_ready() noexcept { return where_.await_ready(); }
    bool await_suspend(std::coroutine_handle<> frame) { return where_.await_suspend(frame); }
    lease<T> await_resume() { return detail::lease_maker::of<T>(where_.take_out()); }

private:
    awaited& where_;
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

// A waiting coroutine, in its own frame: how it waits, how it is resumed, and how it goes away.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <stop_token>
#include <system_error>
#include <type_traits>
#include <utility>

#include "cenote/detail/gate.hpp"
#include "cenote/detail/process.hpp"
#include "cenote/detail/waiter.hpp"

namespace cenote::detail {

class coroutine_waiter;
template <class T, class Handler>
class asio_wait;
template <class T, class Token>
struct asio_start;

/// asio_start; the header that defines it must not be missing. Only a coroutine of Asio looks for
/// it: no other caller calls an awaited object with a token.
template <class T, class Token>
struct asio_start_for {
    using type = asio_start<T, Token>;
    static_assert(
        requires { sizeof(type); },
        "cenote: co_acquire in a coroutine of Boost.Asio needs "
        "#include <cenote/asio.hpp>");
};

/// False for every token, but only once a call has chosen one.
template <class Token>
constexpr bool is_in_one_expression = false;

/// The waiter whose handle this thread is handing over; null once the handle was resumed.
inline constinit thread_local const coroutine_waiter* notifying_here = nullptr;

/// How a waiting coroutine is resumed by the object in the waiter's room: a resumer, or an
/// operation of Asio. A null member means that nothing has to be done.
struct resume_way {
    void (*go_on)(coroutine_waiter&) noexcept;
    void (*retract)(coroutine_waiter&) noexcept;
    void (*move)(void* to, void* from) noexcept = nullptr;
    void (*destroy)(void* what) noexcept = nullptr;
    void (*rethrow)(void* what) = nullptr;  // the exception of gate::begin_wait, if it was stored
};

/// A waiting coroutine. It is made in the coroutine's frame, so nothing is copied before the wait.
class coroutine_waiter : public waiter {
public:
    ~coroutine_waiter() override {
        if (way_->destroy != nullptr) way_->destroy(room_);
    }

    bool await_ready() noexcept {
        if (gate_->before_acquire_may_block() || gate_->lane_is_shut()) return false;
        got = gate_->take(site, wants, 0);
        return got != nullptr;
    }

    bool await_suspend(std::coroutine_handle<> frame) {
        frame_ = frame.address();
        waits_in_ = this_process;
        listen();
        waiting_ = true;
        try {
            if (gate_->begin_wait(*this)) return true;  // *this may be gone
        } catch (...) {
            waiting_ = false;
            throw;
        }
        waiting_ = false;
        return false;
    }

protected:
    /// Fits a small callable, or an operation of Asio.
    static constexpr std::size_t room_size = 88;

    coroutine_waiter(const wait_request& request, std::error_code* error_to) noexcept
        : gate_(request.from), error_to_(error_to) {
        site = request.site;
        wants = request.terms;
        deadline = request.deadline;
        timeout = request.timeout;
        asynchronous = true;
        trace = kept_trace_.keep(request.trace);
        if (request.stop) [[unlikely]]
            stop_with(request.stop.token());
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
        trace = kept_trace_.keep(other.trace);
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
    /// Registers the stop callback.
    void listen() {
        if (stop_) [[unlikely]]
            start_listening();
    }

    /// The resource. If there is none, throws the reason, or stores it in `error_to_` and returns
    /// null.
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
    /// Ends the wait because the frame is being destroyed. Must be called by the derived class:
    /// another thread may be about to call the virtual notify().
    void leave() noexcept;

    /// Returns the resource of a wait that has ended, unused.
    void abandon() noexcept {
        if (stop_) stop_->called.reset();  // before the pool may be gone
        if (got != nullptr) gate_->put_unused(std::exchange(got, nullptr));
        drop_reference();
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

    /// Passes the handle to a resumer, which may resume it before it returns.
    template <class Resume>
    void hand_over(Resume& resume) noexcept {
        const coroutine_waiter* outer = std::exchange(notifying_here, this);
        // A copy if possible: the original is in the frame, which may be destroyed during the call.
        using kept =
            std::conditional_t<std::is_nothrow_copy_constructible_v<Resume>, Resume, Resume&>;
        kept resumer(resume);
        __builtin_prefetch(frame_);  // cold after a long wait, and resumed soon
        resumer(handle());
        // Otherwise *this is gone.
        if (notifying_here == this)
            handed_over_.store(true, std::memory_order_release);  // the last access
        notifying_here = outer;
    }

    /// Not inlined: few waits have a stop token, and the others then need no registers for it.
    [[gnu::noinline]] void start_listening() {
        stop_->called.emplace(stop_->token, canceler{*this});
    }

    /// Waits until the notifying thread no longer uses the frame.
    void wait_for_hand_over() const noexcept;
    /// Throws the reason of the refusal, or stores it in `error_to_`.
    void refuse();
    void drop_reference() noexcept {
        if (std::exchange(keeps_keeper, false)) gate_->drop_reference();
    }

    std::coroutine_handle<> handle() const noexcept {
        return std::coroutine_handle<>::from_address(frame_);
    }

    struct stopping {
        explicit stopping(std::stop_token t) noexcept : token(std::move(t)) {}

        std::stop_token token;
        std::optional<std::stop_callback<canceler>> called;
    };

    void* frame_;                   // of the coroutine; set when it waits
    std::optional<stopping> stop_;  // only with a stop token
    bool waiting_ = false;          // and will be resumed through its handle
    std::atomic<bool> handed_over_{false};
    process_number waits_in_;  // set when it waits
    kept_trace kept_trace_;
};

/// Resumes the coroutine on this thread, or leaves it to the resume loop further up on this stack.
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

}  // namespace cenote::detail

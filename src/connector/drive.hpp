// Steps that advance as far as their socket allows, and the two ways to wait between them: blocking
// the thread, or awaited in a coroutine.
//
// Each conversation with a server is written once, as steps. What a connector does with them (open,
// reset, execute) is written once, too, as a coroutine over the way to wait:
//
//     template <class Mode>
//     result_in<Mode, bool> probe(std::shared_ptr<session> s) {
//         pinging ping(*s);
//         co_await Mode::drive(ping, s->deadline());
//         co_return true;
//     }
//
//     bool alive = probe<blocking>(s).get();
//     bool alive = co_await probe<awaited>(s);
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>

namespace cenote::connector_detail {

using instant = std::chrono::steady_clock::time_point;

/// What steps need before they can go on. `a_turn`: no socket, but a look at the clock and a turn
/// of the event loop, because the step has done as much as one step may.
enum class need : std::uint8_t { nothing, to_read, to_write, to_do_either, a_turn };

/// The bytes that one step reads or converts before it asks for a_turn: at most a millisecond of
/// work, and enough to make the cost of a turn negligible.
inline constexpr std::size_t max_bytes_per_step = std::size_t{64} << 10U;

/// An operation in several steps.
class steps {
public:
    /// Goes on without waiting, by about max_bytes_per_step at most: a server that sends faster
    /// than the steps read must delay neither the deadline nor the event loop. `nothing`: the
    /// operation is complete. May close the descriptor and open another one.
    virtual need step() = 0;
    virtual int descriptor() const = 0;
    /// For the text of a timeout: "the reply", "the connection".
    virtual const char* expected() const { return "a reply"; }

protected:
    ~steps() = default;
};

/// The time after this duration; never (instant::max()) if it is too long to be added.
instant deadline_after(std::chrono::nanoseconds time) noexcept;

namespace drive_detail {

template <class T>
struct outcome {
    void return_value(T v) { value.emplace(std::move(v)); }
    T take() { return *std::move(value); }

    std::optional<T> value;
};
template <>
struct outcome<void> {
    void return_void() const noexcept {}
    void take() const noexcept {}
};

}  // namespace drive_detail

/// The result of a coroutine whose waits all block: it has run to its end when it is returned.
template <class T>
class completed {
public:
    struct promise_type : drive_detail::outcome<T> {
        completed get_return_object() noexcept { return completed(*this); }
        std::suspend_never initial_suspend() const noexcept { return {}; }
        std::suspend_always final_suspend() const noexcept { return {}; }
        void unhandled_exception() noexcept { error = std::current_exception(); }

        std::exception_ptr error;
    };

    completed(const completed&) = delete;
    completed& operator=(const completed&) = delete;
    ~completed() { frame_.destroy(); }

    /// The value, once. Throws what the coroutine has thrown.
    T get() {
        if (frame_.promise().error != nullptr) std::rethrow_exception(frame_.promise().error);
        return frame_.promise().take();
    }

    bool await_ready() const noexcept { return true; }
    void await_suspend(std::coroutine_handle<>) const noexcept {}
    T await_resume() { return get(); }

private:
    using frame = std::coroutine_handle<promise_type>;

    explicit completed(promise_type& of) noexcept : frame_(frame::from_promise(of)) {}

    frame frame_;
};

/// Waits by blocking the thread.
struct blocking {
    template <class T>
    using result = completed<T>;

    /// Takes all steps, and looks at the clock after each. Throws exchange_timeout, and what the
    /// steps throw.
    static std::suspend_never drive(steps& s, instant deadline);
};

/// Waits on the coroutine's executor, on any of its threads.
struct awaited {
    template <class T>
    using result = boost::asio::awaitable<T>;

    /// As blocking::drive. Can be canceled (terminally): then it throws
    /// boost::system::system_error, and the steps stay where they were.
    static boost::asio::awaitable<void> drive(steps& s, instant deadline);
};

/// What a coroutine over a mode returns.
template <class Mode, class T>
using result_in = typename Mode::template result<T>;

}  // namespace cenote::connector_detail

// Cancels coroutines in tests: at a moment that the test waits for, or at every possible moment.
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "cenote/error.hpp"
#include "cenote/server_error.hpp"
#include "support/patience.hpp"

namespace cenote::conformance {

/// Whether this is the error of a cancellation: in line, in an exchange, or in SQLite.
inline bool is_cancellation(const std::exception_ptr& e) {
    constexpr int interrupted = 9;  // SQLITE_INTERRUPT
    if (e == nullptr) return false;
    try {
        std::rethrow_exception(e);
    } catch (const canceled_error&) {
        return true;
    } catch (const boost::system::system_error& s) {
        return s.code() == boost::asio::error::operation_aborted;
    } catch (const statement_error& s) {
        return s.sqlstate().empty() && (s.code() & 0xff) == interrupted;
    } catch (...) {
        return false;
    }
}

/// An event loop with its own thread. The loop outlives all objects that post to it.
class own_thread {
public:
    own_thread() : busy_(boost::asio::make_work_guard(loop())) {
        loop().restart();
        thread_ = std::thread([] { loop().run(); });
    }
    ~own_thread() {
        busy_.reset();
        thread_.join();
    }
    own_thread(const own_thread&) = delete;
    own_thread& operator=(const own_thread&) = delete;

    static boost::asio::io_context& loop() {
        static boost::asio::io_context one;
        return one;
    }

private:
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> busy_;
    std::thread thread_;
};

/// An operation that is awaited on that loop.
class pending {
public:
    explicit pending(boost::asio::awaitable<void> what) {
        auto end = [of = state_](const std::exception_ptr& e) {
            of->ended = e;
            of->over = true;
        };
        boost::asio::co_spawn(own_thread::loop(), std::move(what),
                              boost::asio::bind_cancellation_slot(state_->signal.slot(), end));
    }

    pending(pending&&) noexcept = default;
    pending& operator=(pending&&) = delete;
    /// Waits for the end of the operation, which uses objects of the test.
    ~pending() {
        if (state_ == nullptr || over()) return;
        ask_to_stop();
        support::eventually([this] { return over(); });
    }

    bool over() const { return state_->over; }
    void ask_to_stop() {
        boost::asio::post(own_thread::loop(), [of = state_] {
            of->signal.emit(boost::asio::cancellation_type::terminal);
        });
    }
    /// Cancels it, and returns how it ends.
    std::exception_ptr cancel() {
        ask_to_stop();
        return end();
    }
    std::exception_ptr end() {
        if (!support::eventually([this] { return over(); }))
            throw std::runtime_error("what was canceled does not end");
        return state_->ended;
    }

private:
    struct state {
        boost::asio::cancellation_signal signal;
        std::atomic<bool> over{false};
        std::exception_ptr ended;
    };
    std::shared_ptr<state> state_ = std::make_shared<state>();
};

/// An executor that runs nothing at once unless this thread sets at_once(). So an answer can have
/// arrived before the coroutine that awaits it sees it.
class later {
public:
    explicit later(boost::asio::io_context& on) noexcept : on_(&on) {}

    static bool& at_once() {
        static thread_local bool is = false;
        return is;
    }

    boost::asio::io_context& query(boost::asio::execution::context_t) const noexcept {
        return *on_;
    }
    static constexpr boost::asio::execution::blocking_t query(
        boost::asio::execution::blocking_t) noexcept {
        return boost::asio::execution::blocking.never;
    }
    template <class Work>
    void execute(Work what) const {
        if (at_once()) std::move(what)();
        else boost::asio::post(*on_, std::move(what));
    }
    bool operator==(const later&) const noexcept = default;

private:
    boost::asio::io_context* on_;
};

/// How an operation ends if it is canceled after `steps` steps of a loop of its own. Empty: it
/// ended before.
inline std::optional<std::exception_ptr> canceled_after(int steps,
                                                        boost::asio::awaitable<void> what) {
    static boost::asio::io_context loop;
    loop.restart();
    auto busy = boost::asio::make_work_guard(loop);
    boost::asio::cancellation_signal signal;
    std::exception_ptr ended;
    bool over = false;
    auto end = [&](const std::exception_ptr& e) {
        ended = e;
        over = true;
    };
    auto step = [&] {
        if (loop.run_one_for(support::plenty) == 0)
            throw std::runtime_error("what was canceled does not end");
    };
    boost::asio::co_spawn(later(loop), std::move(what),
                          boost::asio::bind_cancellation_slot(signal.slot(), end));
    for (int i = 0; i < steps && !over; ++i) step();
    bool in_time = !over;
    if (in_time) {
        later::at_once() = true;
        signal.emit(boost::asio::cancellation_type::terminal);
        later::at_once() = false;
    }
    while (!over) step();
    busy.reset();
    loop.run();
    if (in_time) return ended;
    if (ended != nullptr) std::rethrow_exception(ended);
    return std::nullopt;
}

}  // namespace cenote::conformance

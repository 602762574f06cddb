// Exchanges with SQLite: blocking, or awaited on work threads.
#pragma once

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <memory>
#include <type_traits>
#include <utility>

#include "cenote/error.hpp"
#include "cenote/server_error.hpp"
#include "connector/exchange.hpp"
#include "connector/sqlite_session.hpp"
#include "connector/work.hpp"

namespace cenote::sqlite::detail {

using connector_detail::async_run;
using connector_detail::exchange;
using connector_detail::work_call;

/// One exchange. The connection survives every error of SQLite, except for a broken file.
template <class Do>
auto exchanged(session& on, Do what) {
    exchange guard(on.condition());
    on.note_begun();
    on.wait_for_locks(true);
    try {
        auto got = what(on);
        guard.complete();
        return got;
    } catch (const connection_error&) {
        throw;
    } catch (...) {
        guard.complete();
        throw;
    }
}

/// A function of the session for a work thread.
template <class Result, class Do>
class session_call final : public work_call<Result> {
public:
    session_call(std::shared_ptr<session> on, Do what) : on_(std::move(on)), do_(std::move(what)) {}
    Result run() override {
        on_->refuse_stopped();
        on_->wait_for_locks(false);
        return do_(*on_);
    }
    void stop() noexcept override { on_->stop(); }

private:
    std::shared_ptr<session> on_;
    Do do_;
};

/// How long to pause before the next try: briefly at first, since most locks are held for one
/// write.
inline std::chrono::microseconds pause_before(int next_try) {
    return std::chrono::microseconds{std::min(200 << std::min(next_try, 6), 10'000)};
}

/// Without a turn until the deadline, the statement is tried nevertheless.
inline boost::asio::awaitable<void> async_take_turn(std::shared_ptr<session> on,
                                                    std::shared_ptr<writers_line> line) {
    try {
        writers_line::turn taken = co_await line->async_take_until(on->lock_deadline());
        on->give_turn(std::move(taken));
    } catch (const pool_error& e) {
        if (e.code() == errc::canceled) on->stop();
        on->go_without_turn();
    }
}

inline boost::asio::awaitable<void> async_pause(std::shared_ptr<session> on, int tries) {
    boost::asio::steady_timer pause(co_await boost::asio::this_coro::executor, pause_before(tries));
    try {
        co_await pause.async_wait(boost::asio::use_awaitable);
    } catch (const boost::system::system_error&) {
        on->stop();  // canceled: throws the same error as in the middle of a statement
    }
}

/// Tries until SQLite grants the locks. The coroutine waits for a lock, not the work thread: the
/// holder of the lock may need that thread to release it.
template <class Result>
boost::asio::awaitable<Result> async_attempt(std::shared_ptr<session> on,
                                             std::shared_ptr<work_call<Result>> call) {
    for (int tries = 0;; ++tries) {
        std::shared_ptr<writers_line> line;
        try {
            Result got = co_await async_run<Result>(call);
            co_return got;
        } catch (const statement_error& e) {
            line = on->line_to_join();
            bool late = std::chrono::steady_clock::now() >= on->lock_deadline();
            if (e.code() != session::locked || (late && line == nullptr)) throw;
        }
        if (line != nullptr) co_await async_take_turn(on, std::move(line));
        else co_await async_pause(on, tries);
        on->refuse_stopped();
    }
}

/// One exchange, awaited. A coroutine that is destroyed while it waits leaves the connection
/// broken.
template <class Result>
boost::asio::awaitable<Result> async_exchange(std::shared_ptr<session> on,
                                              std::shared_ptr<work_call<Result>> call) {
    exchange guard(on->condition());
    on->note_begun();
    try {
        Result got = co_await async_attempt<Result>(on, std::move(call));
        guard.complete();
        co_return got;
    } catch (const connection_error&) {
        throw;
    } catch (...) {
        guard.complete();
        on->end_turn();  // a turn may have come too late
        throw;
    }
}

template <class Do>
auto async_exchanged(const std::shared_ptr<session>& on, Do what) {
    using result = std::invoke_result_t<Do&, session&>;
    std::shared_ptr<work_call<result>> call =
        std::make_shared<session_call<result, Do>>(on, std::move(what));
    return async_exchange<result>(on, std::move(call));
}

}  // namespace cenote::sqlite::detail

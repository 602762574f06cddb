// When and how soon a transaction that failed is tried again.
#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>

#include "cenote/database.hpp"

namespace cenote::database_detail {

namespace {

/// A conflict with another transaction: a serialization failure, a deadlock, a lock of SQLite.
bool is_conflict(const server_error& e) {
    if (!e.sqlstate().empty()) return e.sqlstate() == "40001" || e.sqlstate() == "40P01";
    constexpr int busy = 5;
    constexpr int locked = 6;
    int code = e.code() & 0xff;
    return e.kind() == error_kind::statement && (code == busy || code == locked);
}

bool is_conflict(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const server_error& e) {
        return is_conflict(e);
    } catch (...) {
        return false;
    }
}

/// Between half of it and all of it, so that transactions that met do not meet again.
std::chrono::nanoseconds with_jitter(std::chrono::nanoseconds pause) {
    static thread_local std::minstd_rand dice(std::random_device{}());
    std::uniform_real_distribution<double> share(0.5, 1.0);
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(pause.count()) * share(dice)));
}

}  // namespace

retry_policy::retry_policy(const transaction_options& how)
    : retries_left_(how.retries), pause_(how.backoff) {}

std::optional<std::chrono::nanoseconds> retry_policy::pause_after(
    const std::exception_ptr& failure) {
    if (retries_left_ == 0 || !is_conflict(failure)) return std::nullopt;
    --retries_left_;
    constexpr std::chrono::nanoseconds longest = std::chrono::seconds(1);
    std::chrono::nanoseconds now = with_jitter(pause_);
    pause_ = std::min(pause_ * 2, longest);
    return now;
}

void wait_for(std::chrono::nanoseconds pause) { std::this_thread::sleep_for(pause); }

asio::awaitable<void> async_wait_for(std::chrono::nanoseconds pause) {
    auto where = co_await asio::this_coro::executor;
    asio::steady_timer timer(where, pause);
    co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace cenote::database_detail

// Borrowers as threads or coroutines, and the arrival times of their operations.
#include "load.hpp"

#include <algorithm>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "command.hpp"

namespace load {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using instant = steady_clock::time_point;

namespace {

/// The arrival times of a Poisson process, shared by all borrowers.
class arrivals {
public:
    arrivals(double rate, std::uint64_t seed, instant begin)
        : gaps_(rate), random_(seed), next_(begin) {}

    instant next() {
        std::lock_guard lock(mutex_);
        next_ += std::chrono::duration_cast<steady_clock::duration>(
            std::chrono::duration<double>(gaps_(random_)));
        return next_;
    }
    std::uint64_t count_until(instant end) {
        std::uint64_t count = 0;
        while (next() < end) ++count;
        return count;
    }

private:
    std::mutex mutex_;
    std::exponential_distribution<double> gaps_;
    std::mt19937_64 random_;
    instant next_;
};

class load_run {
public:
    load_run(target_pool& pool, const plan& p, std::stop_token stop)
        : pool_(pool),
          plan_(p),
          stop_(std::move(stop)),
          from_(steady_clock::now() + p.warm_up),
          end_(from_ + p.duration) {
        if (p.rate > 0) arrivals_.emplace(p.rate, p.seed, steady_clock::now());
    }

    result run(const std::function<void(double)>& on_progress) {
        std::vector<std::unique_ptr<result>> parts;
        parts.reserve(plan_.borrowers);
        for (std::size_t i = 0; i < plan_.borrowers; ++i)
            parts.push_back(std::make_unique<result>());
        if (plan_.loops > 0) run_coroutines(parts, on_progress);
        else run_threads(parts, on_progress);
        return sum_up(parts);
    }

private:
    void run_threads(const std::vector<std::unique_ptr<result>>& parts,
                     const std::function<void(double)>& on_progress) {
        std::vector<std::jthread> threads;
        threads.reserve(parts.size());
        for (std::size_t i = 0; i < parts.size(); ++i)
            threads.emplace_back([this, i, &mine = *parts[i]] { borrow(i, mine); });
        wait_for_end(on_progress);
    }

    void run_coroutines(const std::vector<std::unique_ptr<result>>& parts,
                        const std::function<void(double)>& on_progress) {
        struct borrower {
            explicit borrower(asio::io_context& io) : strand(asio::make_strand(io)) {}
            asio::strand<asio::io_context::executor_type> strand;
            asio::cancellation_signal cancel;
        };
        asio::io_context io;
        std::deque<borrower> all;  // after `io`: a strand must not outlive its context
        for (std::size_t i = 0; i < parts.size(); ++i) {
            borrower& one = all.emplace_back(io);
            asio::co_spawn(
                one.strand, async_borrow(i, parts[i].get()),
                asio::bind_cancellation_slot(one.cancel.slot(), [](const std::exception_ptr&) {}));
        }
        std::vector<std::jthread> threads;
        threads.reserve(plan_.loops);
        for (std::size_t i = 0; i < plan_.loops; ++i) threads.emplace_back([&] { io.run(); });
        wait_for_end(on_progress);
        // A waiting coroutine does not notice the end by itself.
        if (is_over())
            for (borrower& one : all)
                asio::post(one.strand,
                           [&one] { one.cancel.emit(asio::cancellation_type::terminal); });
    }

    void wait_for_end(const std::function<void(double)>& on_progress) {
        instant begun = steady_clock::now();
        double whole = command::in_seconds(end_ - begun);
        for (instant now = begun; now < end_ && !is_over(); now = steady_clock::now()) {
            if (on_progress) on_progress(command::in_seconds(now - begun) / whole);
            std::this_thread::sleep_until(std::min(now + 20ms, end_));
        }
        ended_ = steady_clock::now();
    }

    bool is_over() const { return stop_.stop_requested() || hopeless_; }

    // borrow() and async_borrow() are the same loop, blocking and awaited.

    void borrow(std::size_t number, result& mine) {
        std::minstd_rand random(static_cast<std::minstd_rand::result_type>(plan_.seed + number));
        while (std::optional<instant> due = next_due()) {
            instant arrived = steady_clock::now();
            if (*due > arrived) {
                if (!sleep_until(*due)) return;
                arrived = steady_clock::now();
            } else if (arrivals_) {
                arrived = *due;  // while all borrowers were busy; that wait counts
            }
            operation what = draw(random);
            timestamps when;
            try {
                std::error_code refused = pool_.run(what, stop_, when);
                record(mine, what, arrived, when, refused);
            } catch (const std::exception& e) {
                if (record_failure(mine, e)) std::this_thread::sleep_for(1ms);
            }
        }
    }

    asio::awaitable<void> async_borrow(std::size_t number, result* mine) {
        std::minstd_rand random(static_cast<std::minstd_rand::result_type>(plan_.seed + number));
        asio::steady_timer timer(co_await asio::this_coro::executor);
        while (std::optional<instant> due = next_due()) {
            instant arrived = steady_clock::now();
            if (*due > arrived) {
                timer.expires_at(std::min(*due, end_));
                co_await timer.async_wait(asio::use_awaitable);
                if (*due >= end_ || is_over()) co_return;
                arrived = steady_clock::now();
            } else if (arrivals_) {
                arrived = *due;
            }
            operation what = draw(random);
            timestamps when;
            try {
                std::error_code refused = co_await pool_.async_run(what, &when);
                record(*mine, what, arrived, when, refused);
            } catch (const std::exception& e) {
                record_failure(*mine, e);
            }
        }
    }

    /// When the next operation of a borrower starts; nothing at the end.
    std::optional<instant> next_due() {
        instant now = steady_clock::now();
        if (is_over()) return std::nullopt;
        if (!arrivals_) return now < end_ ? std::optional(now) : std::nullopt;
        // Late arrivals are still served after the end, for at most the duration of the load.
        if (now > end_ + plan_.duration) {
            unserved_ += arrivals_->count_until(end_);
            return std::nullopt;
        }
        instant due = arrivals_->next();
        return due < end_ ? std::optional(due) : std::nullopt;
    }

    bool sleep_until(instant due) const {
        // In slices, to notice the end.
        while (steady_clock::now() < due) {
            if (is_over()) return false;
            std::this_thread::sleep_until(std::min(due, steady_clock::now() + 50ms));
        }
        return true;
    }

    operation draw(std::minstd_rand& random) const {
        std::uint32_t first = static_cast<std::uint32_t>(random());
        auto share = static_cast<double>(random() % 10'000) / 10'000;
        return {.writes = share < plan_.writes, .key = first, .hold = plan_.hold};
    }

    void record(result& mine, const operation& what, instant arrived, const timestamps& when,
                std::error_code refused) const {
        if (refused) {
            bool by_pool = refused.category() == cenote::pool_category();
            if (by_pool && refused != cenote::errc::canceled && arrived >= from_)
                ++mine.refused[static_cast<std::size_t>(refused.value()) - 1];
            return;
        }
        if (arrivals_ ? arrived < from_ : when.released < from_ || when.released >= end_) return;
        ++mine.leases;
        if (what.writes) ++mine.writes;
        mine.wait.record(when.granted - arrived);
        mine.work.record(when.done - when.granted);
        mine.hold.record(when.released - when.granted);
        mine.total.record(when.released - arrived);
    }

    /// Returns false if the load is over.
    bool record_failure(result& mine, const std::exception& e) {
        if (is_over()) return false;  // the statement was canceled
        if (mine.failures++ == 0) mine.first_failure = e.what();
        // End the load if the statement mostly fails.
        if (mine.failures >= 20 && mine.failures > mine.leases) hopeless_ = true;
        return !hopeless_;
    }

    result sum_up(const std::vector<std::unique_ptr<result>>& parts) {
        result all;
        for (const auto& one : parts) all += *one;
        all.unserved = unserved_;
        all.interrupted = stop_.stop_requested() && ended_ < end_;
        all.seconds = std::max(0.0, command::in_seconds(std::min(ended_, end_) - from_));
        all.stats = pool_.stats();
        return all;
    }

    target_pool& pool_;
    const plan& plan_;
    std::stop_token stop_;
    instant from_;
    instant end_;
    instant ended_{};
    std::optional<arrivals> arrivals_;
    std::atomic<bool> hopeless_{false};
    std::atomic<std::uint64_t> unserved_{0};
};

}  // namespace

result& result::operator+=(const result& other) {
    seconds += other.seconds;
    leases += other.leases;
    writes += other.writes;
    wait += other.wait;
    work += other.work;
    hold += other.hold;
    total += other.total;
    for (std::size_t i = 0; i < refused.size(); ++i) refused[i] += other.refused[i];
    unserved += other.unserved;
    if (failures == 0) first_failure = other.first_failure;
    failures += other.failures;
    interrupted = interrupted || other.interrupted;
    stats += other.stats;
    return *this;
}

result run(target_pool& pool, const plan& p, std::stop_token stop,
           const std::function<void(double)>& on_progress) {
    return load_run(pool, p, std::move(stop)).run(on_progress);
}

}  // namespace load

// Borrowers, as threads or as coroutines, and the clock they come by.
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

namespace load {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;
using instant = steady_clock::time_point;

namespace {

/// When the next one comes, whoever takes it up.
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
    /// How many come until `end`.
    std::uint64_t left(instant end) {
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

class crowd {
public:
    crowd(target_pool& pool, const plan& p, std::stop_token stop)
        : pool_(pool),
          plan_(p),
          stop_(std::move(stop)),
          from_(steady_clock::now() + p.warm_up),
          end_(from_ + p.duration) {
        if (p.rate > 0) arrivals_.emplace(p.rate, p.seed, steady_clock::now());
    }

    result run(const std::function<void(double)>& told) {
        std::vector<std::unique_ptr<result>> parts;
        parts.reserve(plan_.borrowers);
        for (std::size_t i = 0; i < plan_.borrowers; ++i)
            parts.push_back(std::make_unique<result>());
        if (plan_.loops > 0) run_coroutines(parts, told);
        else run_threads(parts, told);
        return sum_up(parts);
    }

private:
    void run_threads(const std::vector<std::unique_ptr<result>>& parts,
                     const std::function<void(double)>& told) {
        std::vector<std::jthread> threads;
        threads.reserve(parts.size());
        for (std::size_t i = 0; i < parts.size(); ++i)
            threads.emplace_back([this, i, &mine = *parts[i]] { borrow(i, mine); });
        watch(told);
    }

    void run_coroutines(const std::vector<std::unique_ptr<result>>& parts,
                        const std::function<void(double)>& told) {
        struct borrower {
            explicit borrower(asio::io_context& io) : place(asio::make_strand(io)) {}
            asio::strand<asio::io_context::executor_type> place;
            asio::cancellation_signal call_off;
        };
        asio::io_context io;
        std::deque<borrower> all;  // a strand must not outlive its context
        for (std::size_t i = 0; i < parts.size(); ++i) {
            borrower& one = all.emplace_back(io);
            asio::co_spawn(one.place, async_borrow(i, parts[i].get()),
                           asio::bind_cancellation_slot(one.call_off.slot(),
                                                        [](const std::exception_ptr&) {}));
        }
        std::vector<std::jthread> threads;
        threads.reserve(plan_.loops);
        for (std::size_t i = 0; i < plan_.loops; ++i) threads.emplace_back([&] { io.run(); });
        watch(told);
        // Those who wait for something would not see that it is over.
        if (is_over())
            for (borrower& one : all)
                asio::post(one.place,
                           [&one] { one.call_off.emit(asio::cancellation_type::terminal); });
    }

    void watch(const std::function<void(double)>& told) {
        instant begun = steady_clock::now();
        auto whole = std::chrono::duration<double>(end_ - begun).count();
        for (instant now = begun; now < end_ && !is_over(); now = steady_clock::now()) {
            if (told) told(std::chrono::duration<double>(now - begun).count() / whole);
            std::this_thread::sleep_until(std::min(now + 20ms, end_));
        }
        ended_ = steady_clock::now();
    }

    bool is_over() const { return stop_.stop_requested() || hopeless_; }

    // What a borrower does, written twice because there are two ways to wait.

    void borrow(std::size_t number, result& mine) {
        std::minstd_rand random(static_cast<std::minstd_rand::result_type>(plan_.seed + number));
        while (std::optional<instant> due = next_due()) {
            instant came = steady_clock::now();
            if (*due > came) {
                if (!sleep_until(*due)) return;
                came = steady_clock::now();
            } else if (arrivals_) {
                came = *due;  // it came while all borrowers were busy, and waits since then
            }
            errand what = draw(random);
            moments when;
            try {
                std::error_code refused = pool_.run(what, stop_, when);
                note(mine, what, came, when, refused);
            } catch (const std::exception& e) {
                if (fail(mine, e)) std::this_thread::sleep_for(1ms);
            }
        }
    }

    asio::awaitable<void> async_borrow(std::size_t number, result* mine) {
        std::minstd_rand random(static_cast<std::minstd_rand::result_type>(plan_.seed + number));
        asio::steady_timer timer(co_await asio::this_coro::executor);
        while (std::optional<instant> due = next_due()) {
            instant came = steady_clock::now();
            if (*due > came) {
                timer.expires_at(std::min(*due, end_));
                co_await timer.async_wait(asio::use_awaitable);
                if (*due >= end_ || is_over()) co_return;
                came = steady_clock::now();
            } else if (arrivals_) {
                came = *due;
            }
            errand what = draw(random);
            moments when;
            try {
                std::error_code refused = co_await pool_.async_run(what, &when);
                note(*mine, what, came, when, refused);
            } catch (const std::exception& e) {
                fail(*mine, e);
            }
        }
    }

    /// When this borrower comes next; empty: it is over.
    std::optional<instant> next_due() {
        instant now = steady_clock::now();
        if (is_over()) return std::nullopt;
        if (!arrivals_) return now < end_ ? std::optional(now) : std::nullopt;
        // Whoever has come is served, also if the time is over; but not for ever.
        if (now > end_ + plan_.duration) {
            unserved_ += arrivals_->left(end_);
            return std::nullopt;
        }
        instant due = arrivals_->next();
        return due < end_ ? std::optional(due) : std::nullopt;
    }

    bool sleep_until(instant due) const {
        // In pieces, to see in time that it is over.
        while (steady_clock::now() < due) {
            if (is_over()) return false;
            std::this_thread::sleep_until(std::min(due, steady_clock::now() + 50ms));
        }
        return true;
    }

    errand draw(std::minstd_rand& random) const {
        std::uint32_t first = static_cast<std::uint32_t>(random());
        auto share = static_cast<double>(random() % 10'000) / 10'000;
        return {.writes = share < plan_.writes, .key = first, .hold = plan_.hold};
    }

    void note(result& mine, const errand& what, instant came, const moments& when,
              std::error_code refused) const {
        if (refused) {
            bool ours = refused.category() == cenote::pool_category();
            if (ours && refused != cenote::errc::canceled && came >= from_)
                ++mine.refused[static_cast<std::size_t>(refused.value()) - 1];
            return;
        }
        if (arrivals_ ? came < from_ : when.released < from_ || when.released >= end_) return;
        ++mine.leases;
        if (what.writes) ++mine.writes;
        mine.wait.note(when.granted - came);
        mine.work.note(when.done - when.granted);
        mine.hold.note(when.released - when.granted);
        mine.total.note(when.released - came);
    }

    bool fail(result& mine, const std::exception& e) {
        if (is_over()) return false;  // it was called off
        if (mine.failures++ == 0) mine.first_failure = e.what();
        // A statement that never works is no load.
        if (mine.failures >= 20 && mine.failures > mine.leases) hopeless_ = true;
        return !hopeless_;
    }

    result sum_up(const std::vector<std::unique_ptr<result>>& parts) {
        result all;
        for (const auto& one : parts) all += *one;
        all.unserved = unserved_;
        all.interrupted = stop_.stop_requested() && ended_ < end_;
        all.seconds =
            std::max(0.0, std::chrono::duration<double>(std::min(ended_, end_) - from_).count());
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
           const std::function<void(double)>& told) {
    return crowd(pool, p, std::move(stop)).run(told);
}

}  // namespace load

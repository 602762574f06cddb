// Shared by the thread tests: a resource that detects two owners, a connector that fails and hangs,
// and the identities that the stats must fulfill.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"

namespace cenote::race {

using namespace std::chrono_literals;

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

/// How often something is done: a fifth of `soak` usually, all of it with CENOTE_SOAK in the
/// environment, and less where a sanitizer makes each time expensive.
inline std::size_t times(std::size_t soak, std::size_t under_a_sanitizer) {
    // Nothing here sets a variable. NOLINTNEXTLINE(concurrency-mt-unsafe)
    static const bool soaks = std::getenv("CENOTE_SOAK") != nullptr;
    if (sanitized) return under_a_sanitizer;
    return soaks ? soak : soak / 5;
}

/// Nothing here takes nearly as long: a waiter that waits until then was forgotten.
inline constexpr auto patience = support::plenty;

/// Waits for something that is bound to happen. False: it did not.
template <class Until>
bool eventually(Until&& until) {
    auto deadline = std::chrono::steady_clock::now() + patience;
    while (!until()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::yield();
    }
    return true;
}

inline std::size_t threads_of_this_process() {
    // A sanitizer starts a thread of its own with the first of ours.
    [[maybe_unused]] static const bool started = (std::thread([] {}).join(), true);
    std::filesystem::directory_iterator tasks("/proc/self/task");
    return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

/// Random enough, one per thread.
class dice {
public:
    explicit dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
    std::uint64_t next() {
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_;
    }
    std::uint64_t below(std::uint64_t n) { return (next() >> 11) % n; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }

private:
    std::uint64_t state_;
};

/// Counts resources and opens in flight. Outlives every pool of its test.
struct census {
    std::atomic<std::int64_t> present{0};
    std::atomic<std::int64_t> most{0};
    std::atomic<std::int64_t> bodies{0};       // objects in existence, also detached ones
    std::atomic<std::uint64_t> two_owners{0};  // must stay 0
    std::atomic<std::uint64_t> ended_in_use{0};

    void arrive() {
        std::int64_t now = present.fetch_add(1) + 1;
        std::int64_t before = most.load();
        while (now > before && !most.compare_exchange_weak(before, now)) {
        }
    }
    void leave() { present.fetch_sub(1); }
};

/// The pooled resource. Its content is not atomic on purpose: ThreadSanitizer then sees two
/// holders, and a hand-over that does not order what they did.
class session {
public:
    /// Requires a call of arrive() before.
    explicit session(census& counts, std::uint64_t generation = 0)
        : body_(std::make_unique<body>(counts, generation)) {}
    session(session&&) noexcept = default;
    session& operator=(session&&) = delete;

    void begin_use() {
        if (body_->owned.exchange(true, std::memory_order_relaxed)) ++body_->counts.two_owners;
        ++body_->uses;
    }
    void end_use() { body_->owned.store(false, std::memory_order_relaxed); }
    std::uint64_t uses() const { return body_->uses; }
    std::uint64_t generation() const { return body_->generation; }
    /// What detach() takes out no longer counts.
    void stop_counting() {
        if (std::exchange(body_->counted, false)) body_->counts.leave();
    }
    /// Connector calls use it as a holder does.
    void touch() {
        begin_use();
        end_use();
    }

private:
    struct body {
        body(census& c, std::uint64_t g) : counts(c), generation(g) { ++counts.bodies; }
        ~body() {
            if (owned.load(std::memory_order_relaxed)) ++counts.ended_in_use;
            --counts.bodies;
            if (counted) counts.leave();
        }
        census& counts;
        std::uint64_t generation;
        std::uint64_t uses = 0;
        std::atomic<bool> owned{false};
        bool counted = true;
    };

    std::unique_ptr<body> body_;
};

/// Counts failures made on purpose; the pool's numbers must agree.
struct mishaps {
    std::atomic<std::uint64_t> opens{0};
    std::atomic<std::uint64_t> rejected{0};
    std::atomic<std::uint64_t> strangers{
        0};  // called by another connector than its own: must stay 0
    std::atomic<std::int64_t> hangs_left{0};
    std::mutex mutex;
    std::condition_variable released;
    bool over = false;

    /// A call that does not return before the test lets it.
    void hang() {
        if (hangs_left.fetch_sub(1) <= 0) return;
        std::unique_lock lock(mutex);
        released.wait(lock, [&] { return over; });
    }
    void end_hangs() {
        std::lock_guard lock(mutex);
        over = true;
        released.notify_all();
    }
};

inline dice& my_dice() {
    static std::atomic<std::uint64_t> seeds{1000};
    static thread_local dice mine(++seeds);
    return mine;
}

/// The exception that a connector throws, kept forever: the standard library counts references to
/// an exception where ThreadSanitizer does not see it, and the end of one that another thread has
/// read would pass for a race.
class kept_error {
public:
    template <class Error>
    explicit kept_error(Error e) : error_(std::make_exception_ptr(std::move(e))) {}
    [[noreturn]] void raise() const { std::rethrow_exception(error_); }

private:
    std::exception_ptr error_;
};
inline const kept_error refused_open{std::runtime_error("refused")};

/// Fails, throws, is slow, hangs. Its number is the generation of what it opens.
class moody_connector {
public:
    moody_connector(census& counts, mishaps& bad, std::uint64_t number = 0)
        : counts_(counts), bad_(bad), number_(number) {}

    session open() {
        ++bad_.opens;
        struct presence {
            census& counts;
            bool stays = false;
            explicit presence(census& c) : counts(c) { counts.arrive(); }
            ~presence() {
                if (!stays) counts.leave();
            }
        } here(counts_);
        dawdle();
        if (my_dice().one_in(64)) bad_.hang();
        if (my_dice().one_in(16)) refused_open.raise();
        here.stays = true;
        return session(counts_, number_);
    }
    bool probe(session& s) {
        look_at(s);
        dawdle();
        if (my_dice().one_in(64)) bad_.hang();
        if (my_dice().one_in(32)) throw std::runtime_error("no answer");
        return !my_dice().one_in(32);
    }
    void reset(session& s) {
        look_at(s);
        dawdle();
        if (my_dice().one_in(64)) bad_.hang();
        if (my_dice().one_in(16)) throw std::runtime_error("cannot be cleaned");
    }
    void close(session& s) {
        look_at(s);
        if (my_dice().one_in(64)) bad_.hang();
        if (my_dice().one_in(16)) throw std::runtime_error("no goodbye");
    }

private:
    void look_at(session& s) {
        s.touch();
        if (s.generation() != number_) ++bad_.strangers;
    }
    static void dawdle() {
        if (my_dice().one_in(32)) std::this_thread::sleep_for(50us);
    }

    census& counts_;
    mishaps& bad_;
    std::uint64_t number_;
};

/// One stop source per thread, which the others may pull.
class stop_cords {
public:
    explicit stop_cords(std::size_t size) : cords_(size) {}

    std::stop_token take(std::size_t number) {
        cord& mine = cords_[number];
        std::lock_guard lock(mine.mutex);
        if (mine.source.stop_requested()) mine.source = std::stop_source{};
        return mine.source.get_token();
    }
    void pull(std::size_t number) {
        cord& theirs = cords_[number % cords_.size()];
        std::unique_lock lock(theirs.mutex);
        std::stop_source source = theirs.source;
        lock.unlock();
        source.request_stop();
    }

private:
    struct cord {
        std::mutex mutex;
        std::stop_source source;
    };
    std::vector<cord> cords_;
};

/// A connector whose opens always succeed.
inline auto opens_well(census& counts) {
    return [&counts] {
        counts.arrive();
        return session(counts);
    };
}

/// Uses a lease's resource during its lifetime and checks that no other holder does.
class user {
public:
    explicit user(lease<session>& held) : session_(*held) { session_.begin_use(); }
    ~user() { session_.end_use(); }
    user(const user&) = delete;
    user& operator=(const user&) = delete;

private:
    session& session_;
};

/// Runs `work(number)` on `size` threads at once and waits for all of them.
template <class Work>
void party(std::size_t size, Work&& work) {
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < size; ++i)
        threads.emplace_back([&, i] {
            go.wait(false);
            work(i);
        });
    go = true;
    go.notify_all();
    for (std::thread& each : threads) each.join();
}

/// The number of threads that is `factor` times the number of processors.
inline std::size_t oversubscribed(std::size_t factor) {
    return factor * std::max(1u, std::thread::hardware_concurrency());
}

/// The identities of stats.hpp, which hold at every instant; also while a smaller maximum is
/// waiting for leases to come back.
inline void check_identities(const stats& s) {
    ASSERT_EQ(s.total, s.leased + s.idle + s.opening + s.probing + s.resetting + s.closing);
    std::uint64_t refused =
        std::accumulate(s.refused_by_reason.begin(), s.refused_by_reason.end(), std::uint64_t{0});
    ASSERT_EQ(s.acquires, s.granted + s.waiting + refused);
    ASSERT_EQ(s.granted, s.released + s.detached + s.leased);
}

inline void check_sums(const stats& s) {
    check_identities(s);
    ASSERT_LE(s.total, s.max);
}

/// Nothing of any pool is left: resources, threads.
inline void check_nothing_left(census& counts, std::size_t threads_before) {
    EXPECT_TRUE(eventually([&] { return counts.bodies == 0; })) << counts.bodies << " alive";
    // An open that hung is present before its object exists.
    EXPECT_TRUE(eventually([&] { return counts.present == 0; })) << counts.present << " present";
    EXPECT_EQ(counts.two_owners, 0u);
    EXPECT_EQ(counts.ended_in_use, 0u);
    EXPECT_TRUE(eventually([&] { return threads_of_this_process() <= threads_before; }))
        << threads_of_this_process() << " threads, there were " << threads_before;
}

}  // namespace cenote::race

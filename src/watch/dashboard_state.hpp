// What the dashboard knows: the pools it watches, what they did lately, what they told.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cenote/detail/process.hpp"
#include "cenote/observer.hpp"
#include "cenote/pool_control.hpp"
#include "cenote/stats.hpp"
#include "watch/dashboard_request.hpp"

namespace cenote::detail {

/// One second in the life of a pool. What is no number was not to be seen in this second.
struct sample {
    double granted = 0;  ///< A second, as are those that follow.
    double refused = 0;
    double leased = 0;  ///< At its end, as are those who wait.
    double waiting = 0;
    double wait_p50 = 0;  ///< Seconds, as is the rest.
    double wait_p99 = 0;
    double hold_p50 = 0;
    double hold_p99 = 0;
};

/// What lies between two looks.
sample between(const stats& before, const stats& after, double seconds);

/// The last five minutes, a sample a second. Samples are numbered through the life of a dashboard.
class history {
public:
    static constexpr std::size_t most = 300;

    void add(std::uint64_t number, const sample& one);
    /// Those after number `since`, as JSON: the number of the first, and a column for each value.
    std::string json(std::uint64_t since) const;

private:
    std::uint64_t last_ = 0;
    std::deque<sample> samples_;
};

/// Which pool it is, as names may be taken twice: where its name is. A pool that comes later may
/// have the same; but all that was told by then was told before it lent anything.
using pool_identity = const void*;

/// What pools told lately, the same thing only once; and whose leases are held for too long.
class chronicle final : public observer {
public:
    static constexpr std::size_t most = 100;

    void on_event(const event& what) override;
    bool wants(event_kind kind) const override;

    /// A pool as the page calls it.
    struct title {
        pool_identity pool = nullptr;
        std::string own_name;
        std::string shown_as;
    };
    /// The latest first; pools without a title by their own names.
    std::string json(const std::vector<title>& titles = {}) const;
    /// Whether the pool said of the holder of this resource, who has it since then, that it is
    /// late.
    bool suspects(pool_identity pool, std::uint64_t resource,
                  std::chrono::steady_clock::time_point since) const;

private:
    struct entry {
        pool_identity which = nullptr;
        std::string pool;
        std::string gist;  // two of the same gist are the same thing
        event_kind kind{};
        std::string text;
        std::uint64_t times = 1;
        std::chrono::system_clock::time_point at;
    };
    struct suspicion {
        pool_identity pool = nullptr;
        std::uint64_t resource = 0;
        std::chrono::steady_clock::time_point told;
    };

    const process_number process_ = this_process;
    mutable std::mutex mutex_;
    std::deque<entry> entries_;
    std::deque<suspicion> suspicions_;
};

/// A pool on the page. Its lock is for this one alone: whoever takes it off waits until nobody
/// looks at it any more, and no longer than that. Nobody holds it while others' code may run, as a
/// coroutine that is resumed by a pool may take that pool off.
struct watched_pool {
    watched_pool(std::uint64_t number, std::string as, pool_control of)
        : id(number), name(std::move(as)), own{of.name().data(), of.name(), name}, pool(of) {}

    const std::uint64_t id;  // of this entry, and never of another one
    const std::string name;
    const chronicle::title own;
    std::mutex mutex;
    std::optional<pool_control> pool;  // empty: it has gone
    std::thread::id actor;             // who does something to the pool; nobody: no thread's id
    std::condition_variable done;      // notified when nobody does so any more
    history past;
    std::optional<stats> last;
    std::chrono::steady_clock::time_point looked;
    // A close look, and when: it takes the pool's lock, so it is not had for every request.
    std::string closely;
    std::optional<std::chrono::steady_clock::time_point> looked_closely;
};

/// Thread safety: all members may be called from any thread at any time.
class board {
public:
    board();

    std::shared_ptr<watched_pool> add(pool_control pool);
    /// Waits for what is being done to the pool, unless it is that which takes it off.
    void remove(const std::shared_ptr<watched_pool>& gone) noexcept;
    /// Whether it was made in this process. In the child of a fork its thread does not run, and
    /// whatever was locked stays so.
    bool ours() const noexcept { return process_ == this_process; }
    const std::shared_ptr<chronicle>& told() const noexcept { return chronicle_; }

    /// Takes a sample of every pool.
    void look();
    /// Everything as JSON, of the samples those after number `since`.
    std::string json(std::uint64_t since, bool controllable);

    struct result {
        unsigned status = 200;
        std::string error;  ///< If it is another status: why.
    };
    /// May run others' code, for as long as that likes: coroutines that get a lease, the strategy
    /// of a breaker. One thing at a time is done to a pool.
    result carry_out(const control_order& order);

private:
    std::vector<std::shared_ptr<watched_pool>> present() const;
    std::string json_of(watched_pool& each, std::uint64_t since) const;
    std::string close_look_at(const watched_pool& each) const;

    const process_number process_ = this_process;
    const std::string run_;
    std::shared_ptr<chronicle> chronicle_ = std::make_shared<chronicle>();
    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<watched_pool>> pools_;
    std::uint64_t sample_ = 0;
    std::uint64_t last_id_ = 0;
};

}  // namespace cenote::detail

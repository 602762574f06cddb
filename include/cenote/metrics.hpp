// The stats of pools for monitoring systems: as Prometheus text and as JSON.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cenote/pool_control.hpp"
#include "cenote/stats.hpp"

namespace cenote {

/// Collects the stats of any number of pools and writes them for monitoring systems.
///
///     cenote::metrics all;
///     auto orders = all.add(pool.control());
///     std::string body = all.prometheus();  // for GET /metrics, with metrics::content_type
///
/// Each text reads the stats of every pool, without a lock that an acquire needs.
///
/// Thread safety: all members may be called from any thread at any time.
class metrics {
public:
    /// Includes a pool while it exists. Destroy it before the pool; it may outlive the metrics.
    ///
    /// The destructor waits for a read of this pool that is in progress. After that `read` is not
    /// called again.
    class entry {
    public:
        /// An entry for no pool.
        entry() = default;
        entry(entry&&) noexcept = default;
        entry& operator=(entry&&) noexcept = default;
        ~entry() = default;

        /// The pool's name in the texts.
        const std::string& name() const noexcept { return name_; }

    private:
        friend class metrics;
        struct registration;
        std::shared_ptr<registration> registration_;
        std::string name_;
    };

    /// Without pools.
    metrics();
    ~metrics() = default;
    metrics(const metrics&) = delete;
    metrics& operator=(const metrics&) = delete;

    /// Adds the pool whose stats `read` returns.
    ///
    /// `name` becomes the value of the label `pool` and follows the rule of `options::name`. Choose
    /// it in the program, not from input: each new name is a new time series. A name in use gets a
    /// number (`orders 2`).
    ///
    /// Each text calls `read` once, from one thread at a time. `read` must not destroy its own
    /// entry. Its exceptions reach the caller who requested the text.
    ///
    /// Throws invalid_option for an invalid name, std::invalid_argument if `read` is empty.
    [[nodiscard]] entry add(const std::string& name, std::function<stats()> read);
    /// Adds a pool under its own name.
    [[nodiscard]] entry add(const pool_control& pool) {
        return add(pool.name(), [pool] { return pool.stats(); });
    }

    /// All pools in Prometheus's text format. Names begin with cenote_pool_.
    std::string prometheus() const;
    /// Prometheus's text format with the names of OpenTelemetry's semantic conventions, as
    /// Prometheus writes them: db_client_connection_…. Contains only what the conventions define.
    std::string open_telemetry() const;
    /// All stats as JSON: an object per pool, by name, with every bucket of its histograms.
    std::string json() const;

    /// The media type of prometheus() and open_telemetry().
    static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";

private:
    struct list;
    std::shared_ptr<list> list_;
};

}  // namespace cenote

// What pools have counted, for those who watch them: as Prometheus text and as JSON.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cenote/pool_control.hpp"
#include "cenote/stats.hpp"

namespace cenote {

/// The stats of any number of pools, under one roof.
///
///     cenote::metrics all;
///     auto orders = all.add(pool.control());
///     … answer GET /metrics with all.prometheus(), of the type cenote::metrics::content_type
///
/// Each look asks every pool for its stats, which takes no lock that an acquire needs.
///
/// Thread safety: all members may be called from any thread at any time.
class metrics {
public:
    /// Keeps a pool among those that are watched, until it ends; then nobody looks at the pool any
    /// more, and it may go. May outlive the metrics.
    class entry {
    public:
        entry() = default;
        entry(entry&&) noexcept = default;
        entry& operator=(entry&& other) noexcept;
        ~entry();

        /// What the pool is called here.
        const std::string& name() const noexcept { return name_; }

    private:
        friend class metrics;
        struct list;
        entry(std::shared_ptr<list> in, std::string name) noexcept;
        void leave() noexcept;

        std::shared_ptr<list> in_;
        std::string name_;
    };

    metrics();
    ~metrics();
    metrics(const metrics&) = delete;
    metrics& operator=(const metrics&) = delete;

    /// `name` is the value of the label `pool`: the program's own word, and never something that
    /// came from outside. It follows the rule of `options::name`. A pool whose name is taken
    /// gets a number (`orders 2`). `read` is called for each text, by one thread at a time, and
    /// must not end its own entry; its exceptions reach the caller who asked for the text. Throws
    /// invalid_option for a name that breaks the rule, std::invalid_argument for an empty `read`.
    [[nodiscard]] entry add(const std::string& name, std::function<stats()> read);
    /// A pool by its own name.
    [[nodiscard]] entry add(const pool_control& pool) {
        return add(pool.name(), [pool] { return pool.stats(); });
    }

    /// The text that Prometheus scrapes: cenote_pool_….
    std::string prometheus() const;
    /// The same text with the names of OpenTelemetry's conventions, as far as these go:
    /// db.client.connection.…, written as Prometheus writes them.
    std::string open_telemetry() const;
    /// Everything, for programs: an object for each pool, by its name.
    std::string json() const;

    static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";

private:
    std::shared_ptr<entry::list> list_;
};

}  // namespace cenote

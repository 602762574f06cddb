// Writes the stats of many pools in Prometheus's text format and as JSON.
#include "cenote/metrics.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "cenote/breaker.hpp"
#include "cenote/error.hpp"
#include "watch/json.hpp"
#include "watch/stats_json.hpp"
#include "watch/stats_table.hpp"

namespace cenote {

namespace {

using detail::number_text;
using detail::seconds_of;
using detail::stats_counters;
using detail::stats_gauges;
using detail::stats_json;
using detail::stats_number;
using detail::stats_states;
using detail::stats_time;
using detail::stats_times;
using detail::sum_of;

struct named_stats {
    std::string pool;
    stats now;
};

constexpr std::array<breaker_state, 3> breaker_states{
    breaker_state::active, breaker_state::inactive, breaker_state::recovering};
constexpr std::array<pool_state, 3> pool_states{pool_state::lending, pool_state::paused,
                                                pool_state::closed};

/// Prometheus gets a bound at every eighth bucket, each four times the bound before. The first is
/// at a quarter of a microsecond.
constexpr std::size_t first_bound = 27;
constexpr std::size_t bound_step = 8;

/// Text in Prometheus's format. All samples of one name follow its begin().
class exposition {
public:
    void begin(const std::string& name, const char* type, const char* help) {
        name_ = name;
        text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
    }
    /// `labels`: as in `pool="orders"`.
    void add(const std::string& labels, const std::string& value, const char* suffix = "") {
        text_ += name_ + suffix + "{" + labels + "} " + value + "\n";
    }
    void add(const std::string& labels, const histogram& h) {
        std::uint64_t cumulated = 0;
        std::size_t next = first_bound;
        for (std::size_t i = 0; i < histogram::bucket_count; ++i) {
            cumulated += h.buckets[i];
            if (i != next || i + 1 == histogram::bucket_count) continue;
            next += bound_step;
            std::string bound = labels + ",le=\"";
            bound.append(number_text(seconds_of(histogram::upper_bound(i)))).append("\"");
            add(bound, number_text(cumulated), "_bucket");
        }
        add(labels + ",le=\"+Inf\"", number_text(cumulated), "_bucket");
        add(labels, number_text(sum_of(h)), "_sum");
        add(labels, number_text(cumulated), "_count");
    }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
    std::string name_;
};

std::string pool_label(const named_stats& of) { return "pool=\"" + of.pool + "\""; }

void write_states(exposition& to, const std::vector<named_stats>& all) {
    to.begin("cenote_pool_resources", "gauge", "Resources by state.");
    for (const named_stats& each : all)
        for (const auto& [name, value] : stats_states)
            to.add(pool_label(each) + ",state=\"" + name + "\"", number_text(each.now.*value));
    to.begin("cenote_pool_breaker", "gauge", "1 for the state the circuit breaker is in.");
    for (const named_stats& each : all)
        for (breaker_state s : breaker_states)
            to.add(pool_label(each) + ",state=\"" + to_string(s) + "\"",
                   each.now.breaker == s ? "1" : "0");
    to.begin("cenote_pool_state", "gauge", "1 for the state the pool is in.");
    for (const named_stats& each : all)
        for (pool_state s : pool_states)
            to.add(pool_label(each) + ",state=\"" + to_string(s) + "\"",
                   each.now.state == s ? "1" : "0");
}

void write_reasons(exposition& to, const std::vector<named_stats>& all) {
    to.begin("cenote_pool_retired_total", "counter", "Resources retired by the pool.");
    for (const named_stats& each : all)
        for (std::size_t i = 0; i < retire_reason_count; ++i) {
            auto reason = static_cast<retire_reason>(i);
            to.add(pool_label(each) + ",reason=\"" + to_string(reason) + "\"",
                   number_text(each.now.retired(reason)));
        }
    to.begin("cenote_pool_refused_total", "counter", "Acquires refused.");
    for (const named_stats& each : all)
        for (std::size_t i = 1; i <= errc_count; ++i) {
            auto reason = static_cast<errc>(i);
            to.add(pool_label(each) + ",reason=\"" + to_string(reason) + "\"",
                   number_text(each.now.refused(reason)));
        }
}

}  // namespace

struct metrics::list {
    /// One pool. The mutex is per pool, so that removing a pool waits only for reads of that pool.
    struct watched {
        std::mutex mutex;
        std::function<stats()> read;  // empty: removed
    };

    std::vector<named_stats> read_all() const {
        std::map<std::string, std::shared_ptr<watched>> present;
        {
            std::lock_guard lock(mutex);
            present = all;
        }
        std::vector<named_stats> found;
        found.reserve(present.size());
        for (const auto& [name, one] : present) {
            std::lock_guard lock(one->mutex);
            if (one->read) found.push_back({name, one->read()});
        }
        return found;
    }

    mutable std::mutex mutex;
    std::map<std::string, std::shared_ptr<watched>> all;
};

struct metrics::entry::registration {
    ~registration() {
        if (in == nullptr) return;
        std::shared_ptr<list::watched> removed;
        {
            std::lock_guard lock(in->mutex);
            removed = std::move(in->all.extract(name).mapped());
        }
        std::function<stats()> last;  // destroyed after the unlock
        std::lock_guard lock(removed->mutex);
        last.swap(removed->read);
    }

    std::shared_ptr<list> in = nullptr;
    std::string name = {};
};

metrics::metrics() : list_(std::make_shared<list>()) {}

metrics::entry metrics::add(const std::string& name, std::function<stats()> read) {
    validate_name(name);
    if (read == nullptr) throw std::invalid_argument("cenote: metrics::add: `read` is empty");
    auto pool = std::make_shared<list::watched>();
    pool->read = std::move(read);
    entry added;
    added.registration_ = std::make_shared<entry::registration>();
    std::lock_guard lock(list_->mutex);
    added.name_ = name;
    for (std::size_t i = 2; list_->all.contains(added.name_); ++i)
        added.name_ = name + ' ' + std::to_string(i);
    added.registration_->name = added.name_;
    list_->all.emplace(added.name_, std::move(pool));
    added.registration_->in = list_;  // it removes the pool from now on
    return added;
}

std::string metrics::prometheus() const {
    std::vector<named_stats> all = list_->read_all();
    exposition to;
    for (const stats_number& each : stats_gauges) {
        to.begin(std::string("cenote_pool_") + each.name, "gauge", each.help);
        for (const named_stats& of : all) to.add(pool_label(of), number_text(of.now.*each.value));
    }
    write_states(to, all);
    for (const stats_number& each : stats_counters) {
        to.begin(std::string("cenote_pool_") + each.name + "_total", "counter", each.help);
        for (const named_stats& of : all) to.add(pool_label(of), number_text(of.now.*each.value));
    }
    write_reasons(to, all);
    for (const stats_time& each : stats_times) {
        to.begin(std::string("cenote_pool_") + each.name + "_seconds", "histogram", each.help);
        for (const named_stats& of : all) to.add(pool_label(of), of.now.*each.value);
    }
    return to.take();
}

std::string metrics::open_telemetry() const {
    std::vector<named_stats> all = list_->read_all();
    exposition to;
    auto label = [](const named_stats& of) {
        return "db_client_connection_pool_name=\"" + of.pool + "\"";
    };
    std::string prefix = "db_client_connection_";
    to.begin(prefix + "count", "gauge", "Connections by state.");
    for (const named_stats& of : all) {
        std::uint64_t used = of.now.total - of.now.idle;
        to.add(label(of) + ",db_client_connection_state=\"idle\"", number_text(of.now.idle));
        to.add(label(of) + ",db_client_connection_state=\"used\"", number_text(used));
    }
    to.begin(prefix + "max", "gauge", "Most open connections allowed.");
    for (const named_stats& of : all) to.add(label(of), number_text(of.now.max));
    to.begin(prefix + "pending_requests", "gauge", "Requests in line for a connection.");
    for (const named_stats& of : all) to.add(label(of), number_text(of.now.waiting));
    to.begin(prefix + "timeouts_total", "counter", "Acquires that timed out.");
    for (const named_stats& of : all)
        to.add(label(of), number_text(of.now.refused(errc::timed_out)));
    constexpr std::array<std::pair<const char*, histogram stats::*>, 3> times{
        {{"create_time", &stats::open}, {"wait_time", &stats::wait}, {"use_time", &stats::hold}}};
    for (const auto& [name, value] : times) {
        to.begin(prefix + name + "_seconds", "histogram", "As defined by OpenTelemetry.");
        for (const named_stats& of : all) to.add(label(of), of.now.*value);
    }
    return to.take();
}

std::string metrics::json() const {
    detail::json_object pools;
    for (const named_stats& of : list_->read_all())
        pools.add(of.pool, stats_json(of.now, detail::histograms::full));
    detail::json_object all;
    all.add("pools", pools.take());
    return all.take();
}

}  // namespace cenote

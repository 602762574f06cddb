// How stats are written down: one table of names for all of them, and two ways to write a number.
#include "cenote/metrics.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "cenote/breaker.hpp"
#include "cenote/error.hpp"

namespace cenote {

namespace {

struct named_stats {
    std::string pool;
    stats now;
};

struct number {
    const char* name;
    const char* help;
    std::uint64_t stats::* value;
};

constexpr std::array<number, 2> gauges{{
    {"max", "Most resources the pool may have.", &stats::max},
    {"waiting", "Callers in line.", &stats::waiting},
}};

constexpr std::array<number, 13> counters{{
    {"acquires", "Calls of acquire.", &stats::acquires},
    {"granted", "Leases given out.", &stats::granted},
    {"waited", "Leases given out, but not at once.", &stats::waited},
    {"released", "Leases that came back.", &stats::released},
    {"discarded", "Leases that came back discarded by their holder.", &stats::discarded},
    {"detached", "Leases taken out of the pool for good.", &stats::detached},
    {"opened", "Resources that were opened.", &stats::opened},
    {"open_failed", "Opens that failed.", &stats::open_failed},
    {"closed", "Resources that were closed.", &stats::closed},
    {"abandoned", "Connector calls that outlived their deadline.", &stats::abandoned},
    {"events_lost", "Events dropped because an observer did not follow.", &stats::events_lost},
    {"try_empty", "Calls of try_acquire that found nothing.", &stats::try_empty},
    {"leaks", "Leases held longer than leak_after.", &stats::leaks},
}};

constexpr std::array<std::pair<const char*, std::uint64_t stats::*>, 6> states{{
    {"leased", &stats::leased},
    {"idle", &stats::idle},
    {"opening", &stats::opening},
    {"probing", &stats::probing},
    {"resetting", &stats::resetting},
    {"closing", &stats::closing},
}};

struct times {
    const char* name;
    const char* help;
    histogram stats::* value;
};

constexpr std::array<times, 3> durations{{
    {"wait", "How long granted acquires waited.", &stats::wait},
    {"hold", "How long leases were held (a sample on the fast lane).", &stats::hold},
    {"open", "How long opens took.", &stats::open},
}};

constexpr std::array<breaker_state, 3> breaker_states{
    breaker_state::active, breaker_state::inactive, breaker_state::recovering};
constexpr std::array<pool_state, 3> pool_states{pool_state::lending, pool_state::paused,
                                                pool_state::closed};

std::string text_of(std::uint64_t value) { return std::to_string(value); }

/// As short as it can be without being another number.
std::string text_of(double value) {
    std::array<char, 32> room{};
    auto [end, error] = std::to_chars(room.data(), room.data() + room.size(), value);
    return error == std::errc() ? std::string(room.data(), end) : "0";
}

double seconds_of(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}

/// The middle of each bucket, for a sum that nobody has kept: off by an eighth at most.
double sum_of(const histogram& h) {
    double sum = 0;
    std::chrono::nanoseconds below{0};
    for (std::size_t i = 0; i < histogram::bucket_count; ++i) {
        bool last = i + 1 == histogram::bucket_count;
        std::chrono::nanoseconds above = last ? below : histogram::upper_bound(i);
        sum += static_cast<double>(h.buckets[i]) * (seconds_of(below) + seconds_of(above)) / 2;
        below = above;
    }
    return sum;
}

/// Every eighth bucket ends at four times the time of the one before; those of less than a quarter
/// of a microsecond go together. The last is for everything.
constexpr std::size_t first_bound = 27;
constexpr std::size_t bounds_apart = 8;

/// Text in Prometheus's format. Everything of one name stands together.
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
        std::uint64_t below = 0;
        std::size_t next = first_bound;
        for (std::size_t i = 0; i < histogram::bucket_count; ++i) {
            below += h.buckets[i];
            if (i != next || i + 1 == histogram::bucket_count) continue;
            next += bounds_apart;
            std::string bound = labels + ",le=\"";
            bound.append(text_of(seconds_of(histogram::upper_bound(i)))).append("\"");
            add(bound, text_of(below), "_bucket");
        }
        add(labels + ",le=\"+Inf\"", text_of(below), "_bucket");
        add(labels, text_of(sum_of(h)), "_sum");
        add(labels, text_of(below), "_count");
    }
    std::string take() { return std::move(text_); }

private:
    std::string text_;
    std::string name_;
};

std::string pool_label(const named_stats& of) { return "pool=\"" + of.pool + "\""; }

void write_states(exposition& to, const std::vector<named_stats>& all) {
    to.begin("cenote_pool_resources", "gauge", "Resources by what they are doing.");
    for (const named_stats& each : all)
        for (const auto& [word, value] : states)
            to.add(pool_label(each) + ",state=\"" + word + "\"", text_of(each.now.*value));
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
    to.begin("cenote_pool_retired_total", "counter", "Resources that the pool itself has ended.");
    for (const named_stats& each : all)
        for (std::size_t i = 0; i < retire_reason_count; ++i) {
            auto reason = static_cast<retire_reason>(i);
            to.add(pool_label(each) + ",reason=\"" + to_string(reason) + "\"",
                   text_of(each.now.retired(reason)));
        }
    to.begin("cenote_pool_refused_total", "counter", "Acquires that got no lease.");
    for (const named_stats& each : all)
        for (std::size_t i = 1; i <= errc_count; ++i) {
            auto reason = static_cast<errc>(i);
            to.add(pool_label(each) + ",reason=\"" + to_string(reason) + "\"",
                   text_of(each.now.refused(reason)));
        }
}

// JSON. All keys and names are plain words: nothing has to be escaped.

class object {
public:
    void add(std::string_view name, std::string_view value) {
        text_ += text_.size() == 1 ? "\"" : ",\"";
        text_.append(name).append("\":").append(value);
    }
    std::string take() {
        text_ += '}';
        return std::move(text_);
    }

private:
    std::string text_ = "{";
};

/// Only those that have counted something, each with its bound.
std::string buckets_of(const histogram& h) {
    std::string all = "[";
    for (std::size_t i = 0; i < histogram::bucket_count; ++i) {
        if (h.buckets[i] == 0) continue;
        bool last = i + 1 == histogram::bucket_count;
        all += all.size() == 1 ? "[" : ",[";
        all += last ? "null" : text_of(seconds_of(histogram::upper_bound(i)));
        all.append(",").append(text_of(h.buckets[i])).append("]");
    }
    return all.append("]");
}

std::string json_of(const histogram& h) {
    object all;
    all.add("count", text_of(h.count()));
    all.add("sum", text_of(sum_of(h)));
    all.add("p50", text_of(seconds_of(h.quantile(0.5))));
    all.add("p95", text_of(seconds_of(h.quantile(0.95))));
    all.add("p99", text_of(seconds_of(h.quantile(0.99))));
    all.add("buckets", buckets_of(h));
    return all.take();
}

std::string json_of(const stats& now) {
    object all;
    for (const number& each : gauges) all.add(each.name, text_of(now.*each.value));
    all.add("total", text_of(now.total));
    for (const auto& [word, value] : states) all.add(word, text_of(now.*value));
    all.add("breaker", '"' + std::string(to_string(now.breaker)) + '"');
    all.add("state", '"' + std::string(to_string(now.state)) + '"');
    for (const number& each : counters) all.add(each.name, text_of(now.*each.value));
    object retired;
    for (std::size_t i = 0; i < retire_reason_count; ++i) {
        auto reason = static_cast<retire_reason>(i);
        retired.add(to_string(reason), text_of(now.retired(reason)));
    }
    all.add("retired", retired.take());
    object refused;
    for (std::size_t i = 1; i <= errc_count; ++i) {
        auto reason = static_cast<errc>(i);
        refused.add(to_string(reason), text_of(now.refused(reason)));
    }
    all.add("refused", refused.take());
    for (const times& each : durations) all.add(each.name, json_of(now.*each.value));
    return all.take();
}

void check_name(std::string_view name) {
    auto fits = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '.' || c == '-';
    };
    constexpr std::size_t longest = 64;
    if (!name.empty() && name.size() <= longest && std::ranges::all_of(name, fits)) return;
    throw std::invalid_argument(
        "cenote: a pool's name in metrics has letters, digits and _ . - alone, at most 64");
}

}  // namespace

struct metrics::entry::list {
    /// One pool. Its lock is for this one alone: whoever takes it out of the list waits until
    /// nobody looks at it any more, and no longer than that.
    struct watched {
        std::mutex mutex;
        std::function<stats()> read;  // empty: it has gone
    };

    std::vector<named_stats> look() const {
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

metrics::entry::entry(std::shared_ptr<list> in, std::string name) noexcept
    : in_(std::move(in)), name_(std::move(name)) {}

metrics::entry& metrics::entry::operator=(entry&& other) noexcept {
    if (this != &other) {
        leave();
        in_ = std::move(other.in_);
        name_ = std::move(other.name_);
    }
    return *this;
}

metrics::entry::~entry() { leave(); }

void metrics::entry::leave() noexcept {
    if (in_ == nullptr) return;
    std::shared_ptr<list::watched> gone;
    {
        std::lock_guard lock(in_->mutex);
        auto found = in_->all.find(name_);
        gone = std::move(found->second);
        in_->all.erase(found);
    }
    std::function<stats()> last;  // ends when nothing is locked
    std::lock_guard lock(gone->mutex);
    last.swap(gone->read);
}

metrics::metrics() : list_(std::make_shared<entry::list>()) {}
metrics::~metrics() = default;

metrics::entry metrics::add(std::string name, std::function<stats()> read) {
    check_name(name);
    if (read == nullptr) throw std::invalid_argument("cenote: metrics need a way to read a pool");
    auto kept = std::make_shared<entry::list::watched>();
    kept->read = std::move(read);
    std::lock_guard lock(list_->mutex);
    if (!list_->all.emplace(name, std::move(kept)).second)
        throw std::invalid_argument("cenote: there is a pool of that name in the metrics already");
    return {list_, std::move(name)};
}

std::string metrics::prometheus() const {
    std::vector<named_stats> all = list_->look();
    exposition to;
    for (const number& each : gauges) {
        to.begin(std::string("cenote_pool_") + each.name, "gauge", each.help);
        for (const named_stats& of : all) to.add(pool_label(of), text_of(of.now.*each.value));
    }
    write_states(to, all);
    for (const number& each : counters) {
        to.begin(std::string("cenote_pool_") + each.name + "_total", "counter", each.help);
        for (const named_stats& of : all) to.add(pool_label(of), text_of(of.now.*each.value));
    }
    write_reasons(to, all);
    for (const times& each : durations) {
        to.begin(std::string("cenote_pool_") + each.name + "_seconds", "histogram", each.help);
        for (const named_stats& of : all) to.add(pool_label(of), of.now.*each.value);
    }
    return to.take();
}

std::string metrics::open_telemetry() const {
    std::vector<named_stats> all = list_->look();
    exposition to;
    auto label = [](const named_stats& of) {
        return "db_client_connection_pool_name=\"" + of.pool + "\"";
    };
    std::string prefix = "db_client_connection_";
    to.begin(prefix + "count", "gauge", "Connections by state.");
    for (const named_stats& of : all) {
        std::uint64_t used = of.now.total - of.now.idle;
        to.add(label(of) + ",db_client_connection_state=\"idle\"", text_of(of.now.idle));
        to.add(label(of) + ",db_client_connection_state=\"used\"", text_of(used));
    }
    to.begin(prefix + "max", "gauge", "Most open connections allowed.");
    for (const named_stats& of : all) to.add(label(of), text_of(of.now.max));
    to.begin(prefix + "pending_requests", "gauge", "Requests in line for a connection.");
    for (const named_stats& of : all) to.add(label(of), text_of(of.now.waiting));
    to.begin(prefix + "timeouts_total", "counter", "Acquires whose time was up.");
    for (const named_stats& of : all) to.add(label(of), text_of(of.now.refused(errc::timed_out)));
    constexpr std::array<std::pair<const char*, histogram stats::*>, 3> same{
        {{"create_time", &stats::open}, {"wait_time", &stats::wait}, {"use_time", &stats::hold}}};
    for (const auto& [name, value] : same) {
        to.begin(prefix + name + "_seconds", "histogram", "As OpenTelemetry has it.");
        for (const named_stats& of : all) to.add(label(of), of.now.*value);
    }
    return to.take();
}

std::string metrics::json() const {
    object pools;
    for (const named_stats& of : list_->look()) pools.add(of.pool, json_of(of.now));
    object all;
    all.add("pools", pools.take());
    return all.take();
}

}  // namespace cenote

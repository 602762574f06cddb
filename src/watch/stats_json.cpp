// Writes stats as JSON. No name and no value needs escaping.
#include "watch/stats_json.hpp"

#include <cstddef>

#include "cenote/breaker.hpp"
#include "cenote/error.hpp"
#include "watch/json.hpp"
#include "watch/stats_table.hpp"

namespace cenote::detail {

namespace {

/// The buckets that are not empty, as pairs of upper bound and count.
std::string buckets_of(const histogram& h) {
    std::string all = "[";
    for (std::size_t i = 0; i < histogram::bucket_count; ++i) {
        if (h.buckets[i] == 0) continue;
        bool last = i + 1 == histogram::bucket_count;
        all += all.size() == 1 ? "[" : ",[";
        all += last ? "null" : number_text(seconds_of(histogram::upper_bound(i)));
        all.append(",").append(number_text(h.buckets[i])).append("]");
    }
    return all.append("]");
}

std::string json_of(const histogram& h, histograms how) {
    json_object all;
    all.add("count", number_text(h.count()));
    all.add("sum", number_text(sum_of(h)));
    all.add("p50", number_text(seconds_of(h.quantile(0.5))));
    all.add("p95", number_text(seconds_of(h.quantile(0.95))));
    all.add("p99", number_text(seconds_of(h.quantile(0.99))));
    if (how == histograms::full) all.add("buckets", buckets_of(h));
    return all.take();
}

}  // namespace

std::string stats_json(const stats& now, histograms how) {
    json_object all;
    for (const stats_number& each : stats_gauges) all.add(each.name, number_text(now.*each.value));
    all.add("total", number_text(now.total));
    for (const auto& [name, value] : stats_states) all.add(name, number_text(now.*value));
    all.add("breaker", '"' + std::string(to_string(now.breaker)) + '"');
    all.add("state", '"' + std::string(to_string(now.state)) + '"');
    for (const stats_number& each : stats_counters)
        all.add(each.name, number_text(now.*each.value));
    json_object retired;
    for (std::size_t i = 0; i < retire_reason_count; ++i) {
        auto reason = static_cast<retire_reason>(i);
        retired.add(to_string(reason), number_text(now.retired(reason)));
    }
    all.add("retired", retired.take());
    json_object refused;
    for (std::size_t i = 1; i <= errc_count; ++i) {
        auto reason = static_cast<errc>(i);
        refused.add(to_string(reason), number_text(now.refused(reason)));
    }
    all.add("refused", refused.take());
    for (const stats_time& each : stats_times) all.add(each.name, json_of(now.*each.value, how));
    return all.take();
}

}  // namespace cenote::detail

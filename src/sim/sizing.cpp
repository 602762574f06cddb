// Simulates pools of many sizes and finds the best.
#include "sim/sizing.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <stdexcept>

#include "cenote/options.hpp"

namespace cenote::sim {

using namespace std::chrono_literals;
using core::duration;

namespace {

constexpr double time_tolerance = 0.25;
constexpr std::size_t for_a_parabola = 3;  // points
constexpr double keeps_up_with = 0.95;     // of the arrivals, since a short run is noisy

/// The nearest values that do not fall (pool adjacent violators). Adds the squared distance to
/// error.
std::vector<double> rising(const std::vector<double>& values, double& error) {
    struct block {
        double sum;
        std::size_t count;
        double mean() const { return sum / static_cast<double>(count); }
    };
    std::vector<block> blocks;
    for (double v : values) {
        blocks.push_back({v, 1});
        while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
            blocks[blocks.size() - 2].sum += blocks.back().sum;
            blocks[blocks.size() - 2].count += blocks.back().count;
            blocks.pop_back();
        }
    }
    std::vector<double> result;
    for (const block& b : blocks) result.insert(result.end(), b.count, b.mean());
    for (std::size_t i = 0; i < values.size(); ++i)
        error += (values[i] - result[i]) * (values[i] - result[i]);
    return result;
}

/// The values without outliers that are higher, or lower, than both neighbors.
std::vector<double> without_spikes(const std::vector<double>& values) {
    std::vector<double> result = values;
    for (std::size_t i = 1; i + 1 < values.size(); ++i) {
        auto [least, most] = std::minmax(values[i - 1], values[i + 1]);
        result[i] = std::clamp(values[i], least, most);
    }
    return result;
}

options pool_of(std::size_t max) {
    options o;
    o.name = "simulated";
    o.max = max;
    o.min_size = max;  // the question is not what opens cost
    o.acquire_timeout = 24h;
    o.open_timeout = o.reset_timeout = 24h;
    o.idle_timeout = o.max_lifetime = forever;
    o.line_max = 10'000;  // a longer line only grows
    return o;
}

sized sized_from(std::size_t max, const load_result& r) {
    return {.max = max,
            .throughput = r.throughput,
            .wait_median = load_result::quantile(r.wait, 0.5),
            .wait_p99 = load_result::quantile(r.wait, 0.99),
            .total_p95 = load_result::quantile(r.total, 0.95)};
}

/// Rounds up to 1, 2 or 5 times a power of ten; long durations to whole minutes.
duration rounded_up(duration d) {
    for (duration unit = 1ms; unit <= 10s; unit *= 10)
        for (int times : {1, 2, 5})
            if (d <= unit * times) return unit * times;
    return std::chrono::ceil<std::chrono::minutes>(d);
}

/// A timeout that only an outage reaches: ten times what all but one lease in a thousand take, and
/// long enough for a pool without resources to open some.
duration longest_wait(const load_result& r, const measured_server& server) {
    duration usual = load_result::quantile(r.total, 0.999);
    return std::max<duration>(rounded_up(std::max(10 * usual, 4 * server.open())), 100ms);
}

/// Idle resources for a burst: the difference between a busy moment and a usual one. None if an
/// open takes no longer than a lease.
std::size_t spares(const load_result& r, const measured_server& server, duration hold) {
    if (server.open() <= server.mean_service(1) + hold) return 0;
    return std::max<std::size_t>(1, r.busy_quantile(0.99) - r.busy_quantile(0.5));
}

}  // namespace

std::vector<double> unimodal(const std::vector<double>& values) {
    std::vector<double> best;
    double least = HUGE_VAL;
    for (std::size_t peak = 0; peak < values.size(); ++peak) {
        auto at = values.begin() + static_cast<std::ptrdiff_t>(peak) + 1;
        double error = 0;
        std::vector<double> up = rising({values.begin(), at}, error);
        std::vector<double> down(at, values.end());
        std::reverse(down.begin(), down.end());
        down = rising(down, error);
        std::reverse(down.begin(), down.end());
        // If the falling part begins above the peak, another peak is better.
        if (!down.empty() && down.front() > up.back()) continue;
        if (error >= least) continue;
        least = error;
        best = up;
        best.insert(best.end(), down.begin(), down.end());
    }
    return best;
}

double smooth_throughput(const std::vector<sized>& all, std::size_t size) {
    // Fits a parabola by least squares, with logarithms on both axes: twice the size is as near as
    // half the size. `s` and `t` are the sums of the normal equations.
    constexpr double none = 1e-9;
    std::array<double, 5> s{};
    std::array<double, 3> t{};
    for (const sized& other : all) {
        double away = std::log(static_cast<double>(other.max) / static_cast<double>(size));
        double weight = std::exp(-away * away / 2);
        double height = std::log(std::max(other.throughput, none));
        for (double& sum : t) {
            sum += weight * height;
            height *= away;
        }
        for (double& sum : s) {
            sum += weight;
            weight *= away;
        }
    }
    double a = s[2] * s[4] - s[3] * s[3];
    double b = s[2] * s[3] - s[1] * s[4];
    double c = s[1] * s[3] - s[2] * s[2];
    return std::exp((t[0] * a + t[1] * b + t[2] * c) / (s[0] * a + s[1] * b + s[2] * c));
}

namespace {

/// Considers sizes between those that were tried, too.
std::size_t best_without_rate(const std::vector<sized>& all, double reach) {
    if (all.size() < for_a_parabola) {
        std::size_t i = 0;
        while (i + 1 < all.size() && all[i].throughput < reach * all[i + 1].throughput) ++i;
        return all[i].max;
    }
    std::vector<double> smooth;
    for (std::size_t size = all.front().max; size <= all.back().max; ++size)
        smooth.push_back(smooth_throughput(all, size));
    double enough = reach * *std::max_element(smooth.begin(), smooth.end());
    auto first = std::find_if(smooth.begin(), smooth.end(), [&](double v) { return v >= enough; });
    return all.front().max + static_cast<std::size_t>(first - smooth.begin());
}

/// The shortest time among the sizes that keep up.
std::size_t best_at_rate(const std::vector<sized>& all, double rate) {
    std::vector<double> goodness;
    for (const sized& s : all) {
        bool keeps_up = s.throughput >= keeps_up_with * rate;
        double total = std::max(std::chrono::duration<double>(s.total_p95).count(), 1e-9);
        goodness.push_back(keeps_up ? 1 / total : 0);
    }
    goodness = unimodal(without_spikes(goodness));
    double most = *std::max_element(goodness.begin(), goodness.end());
    if (most <= 0) return all.back().max;
    std::size_t i = 0;
    while (goodness[i] * (1 + time_tolerance) < most) ++i;
    return all[i].max;
}

}  // namespace

std::size_t best_size(const std::vector<sized>& all, const goal& g) {
    if (all.empty()) return 0;
    return g.rate > 0 ? best_at_rate(all, g.rate) : best_without_rate(all, g.reach);
}

std::vector<std::size_t> sizes_to_try(std::size_t most) {
    std::vector<std::size_t> sizes;
    // 1 … 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, …
    for (std::size_t n = 1, step = 1; n <= most; n += step) {
        sizes.push_back(n);
        if (n >= 8 && (n & (n - 1)) == 0) step = n / 4;
    }
    if (most > 0 && sizes.back() != most) sizes.push_back(most);
    return sizes;
}

std::size_t server_share::margin() const { return std::max<std::size_t>(1, limit / 10); }

std::size_t server_share::most() const {
    return (limit - std::min(limit, margin())) / std::max<std::size_t>(1, processes);
}

namespace {

/// Whether the highest throughput is likely to lie beyond the sizes that were tried.
bool still_rises(const std::vector<sized>& all) {
    constexpr double noticeably = 1.05;
    std::size_t last = all.back().max;
    if (all.size() < for_a_parabola)
        return all.back().throughput > noticeably * all.front().throughput || last == 1;
    return smooth_throughput(all, last) > noticeably * smooth_throughput(all, last * 3 / 4);
}

/// The concurrency of the server at a throughput (Little's law).
std::size_t worked_on(const measured_server& server, double throughput, std::size_t most) {
    std::size_t n = 1;
    for (int i = 0; i < 20; ++i) {
        auto each = std::chrono::duration<double>(server.mean_service(n) + server.reset(n));
        double count = std::clamp(std::round(throughput * each.count()), 1.0,
                                  static_cast<double>(std::max<std::size_t>(most, 1)));
        n = static_cast<std::size_t>(count);
    }
    return n;
}

/// The server as one of several processes sees it, while it works for the others, too.
measured_server seen_by_one(const measured_server& server, std::size_t processes,
                            double rate_of_all, const advice& a) {
    if (processes == 1) return server;
    double throughput = 0;
    for (const sized& s : a.curve)
        if (s.max <= a.together) throughput = s.throughput;
    // With a waiter at any time all connections are in use.
    std::size_t all = a.max * processes;
    if (rate_of_all > 0 && throughput >= keeps_up_with * rate_of_all)
        all = worked_on(server, throughput, all);
    std::size_t others = all - all / processes;
    std::vector<level> levels;
    for (std::size_t n = 1; n <= a.max; ++n) {
        level& l = levels.emplace_back();
        l.at_once = n;
        for (std::size_t share = 0; share < measured_server::shares; ++share)
            l.service.push_back(server.service(n + others, share));
        l.reset = server.reset(n + others);
        l.handover = server.handover(n + others);
    }
    return measured_server(std::move(levels), server.open());
}

/// Simulates one process with `a.max` on the server that it sees.
void look_at_one(const measured_server& server, const question& q, advice& a,
                 const enough& is_enough) {
    load who{.borrowers = q.borrowers + a.max, .hold = q.hold, .leases = q.leases, .seed = q.seed};
    double most = run(pool_of(a.max), server, who, is_enough).throughput;
    who.borrowers = q.borrowers;
    a.rate = who.rate = q.rate > 0 ? q.rate : 0.7 * most;
    if (is_enough()) return;
    a.at_rate = run(pool_of(a.max), server, who, is_enough);
    a.keeps_up = a.at_rate.throughput >= keeps_up_with * a.rate;
    // Waits in a line that only grows mean nothing.
    who.rate = std::min(a.rate, 0.9 * most);
    if (is_enough()) return;
    load_result steady = a.keeps_up ? a.at_rate : run(pool_of(a.max), server, who, is_enough);
    a.min_idle = std::min(a.max, spares(steady, server, q.hold));
    a.acquire_timeout = longest_wait(steady, server);
}

}  // namespace

advice advise(const measured_server& server, const question& q,
              const std::function<void(double)>& told, const enough& is_enough) {
    if (q.share && q.share->most() == 0)
        throw std::invalid_argument("cenote: " + std::to_string(q.share->processes) +
                                    " processes cannot share " + std::to_string(q.share->limit) +
                                    " connections");
    std::size_t processes =
        std::max<std::size_t>({1, q.processes, q.share ? q.share->processes : std::size_t{1}});
    advice a;
    // More borrowers than that change nothing.
    std::size_t crowd = std::max(q.borrowers, 4 * q.most);
    load who{.rate = q.rate * static_cast<double>(processes),
             .borrowers = processes > crowd ? crowd : std::min(crowd, q.borrowers * processes),
             .hold = q.hold,
             .leases = q.leases,
             .seed = q.seed};
    std::vector<std::size_t> sizes = sizes_to_try(q.most);
    for (std::size_t max : sizes) {
        if (is_enough()) return a;
        a.curve.push_back(sized_from(max, run(pool_of(max), server, who, is_enough)));
        if (told) told(static_cast<double>(a.curve.size()) / static_cast<double>(sizes.size() + 1));
    }
    a.together = best_size(a.curve, {.rate = who.rate, .reach = q.reach});
    // With a connection for each borrower none waits: more cannot be better.
    a.at_the_edge =
        who.rate > 0 ? a.together == q.most : q.most < who.borrowers && still_rises(a.curve);
    a.unbounded_max = a.max = (a.together + processes - 1) / processes;
    if (q.share && q.share->most() < a.max) {
        a.max = q.share->most();
        a.limit_binds = true;
    }
    if (is_enough()) return a;
    look_at_one(seen_by_one(server, processes, who.rate, a), q, a, is_enough);
    return a;
}

}  // namespace cenote::sim

// Takes many short samples in alternating order, and computes medians.
#include "measure.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "command.hpp"

namespace load {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

namespace {

double median(std::vector<double> of) {
    auto middle = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
    std::nth_element(of.begin(), middle, of.end());
    return *middle;
}

nanoseconds from_seconds(double s) { return nanoseconds{static_cast<nanoseconds::rep>(s * 1e9)}; }

std::vector<std::size_t> levels_up_to(std::size_t most) {
    std::vector<std::size_t> all;
    for (std::size_t power = 1; power <= most; power *= 2) {
        all.push_back(power);
        if (power > 1 && power + power / 2 <= most) all.push_back(power + power / 2);
    }
    if (all.back() != most) all.push_back(most);
    return all;
}

cenote::options pool_of(std::size_t max) {
    cenote::options o;
    o.name = "size";
    o.max = o.min_size = max;
    o.warm_up = cenote::warm_up::wait;
    o.acquire_timeout = 1min;
    o.line_max = 1'000'000;
    return o;
}

/// Calls `sample(index, round)` for all sizes in each round, in alternating order. Returns false if
/// it was stopped.
template <class Sample>
bool in_rounds(std::size_t count, const measure_options& o, Sample sample) {
    for (std::size_t round = 0; round < o.rounds; ++round)
        for (std::size_t i = 0; i < count; ++i) {
            if (o.on_progress)
                o.on_progress(static_cast<double>(round * count + i) /
                              static_cast<double>(o.rounds * count));
            sample(round % 2 == 0 ? i : count - 1 - i, round);
            if (o.stop.stop_requested()) return false;
        }
    return true;
}

[[noreturn]] void throw_statement_failed(const std::string& error) {
    throw command::failure("the statement failed: " + command::without_prefix(error));
}

/// The time of one statement without concurrency.
nanoseconds statement_time(target& where, const measure_options& o) {
    auto pool = where.open(pool_of(1));
    std::vector<double> taken;
    // The first run may be slower: cold caches, an unprepared statement.
    for (std::int64_t i = 0; i < 3 && !o.stop.stop_requested(); ++i) {
        timestamps when;
        try {
            if (pool->run({.key = i}, o.stop, when)) break;
        } catch (const std::exception& error) {
            throw_statement_failed(error.what());
        }
        taken.push_back(static_cast<double>((when.done - when.granted).count()));
    }
    return taken.empty() ? nanoseconds{} : from_seconds(median(taken) / 1e9);
}

/// The length of each of `count` samples. Each takes at least `least`, for the given reason.
nanoseconds sample_length(const measure_options& o, std::size_t count, nanoseconds least,
                          const std::string& reason) {
    auto samples = static_cast<nanoseconds::rep>(count);
    nanoseconds each = std::max(o.duration / samples, least);
    // Exceeding --duration a little is better than failing.
    if (each * samples <= std::max<nanoseconds>(3 * o.duration, o.duration + 10s)) return each;
    throw command::failure(reason + ": too long for " + std::to_string(count) + " samples in " +
                               command::in_words(o.duration),
                           "Use --duration " + std::to_string((least * samples) / 1s + 1) +
                               "s, or a smaller --up-to.");
}

/// Takes a sample, and a longer one if no operation ended in time.
result sample(target_pool& pool, plan p, nanoseconds each, double warm_up,
              const measure_options& o) {
    for (int longer = 1;; longer *= 2) {
        p.warm_up = from_seconds(command::in_seconds(each) * longer * warm_up);
        p.duration = each * longer - p.warm_up;
        result r = run(pool, p, o.stop);
        if (r.failures > 0) throw_statement_failed(r.first_failure);
        if (r.leases > 0 || o.stop.stop_requested()) return r;
        if (longer >= 16)
            throw command::failure("no operation of " + std::to_string(p.borrowers) +
                                       " borrowers ended within " +
                                       command::in_words(each * longer),
                                   "Use a longer --duration, or a smaller --up-to.");
    }
}

/// The samples at one concurrency.
struct samples {
    std::vector<double> alone, crowded;  // throughput, by round
    result together;
};

/// The medians of throughput, made unimodal.
std::vector<double> medians(const std::map<std::size_t, samples>& by_size,
                            std::vector<double> samples::* which) {
    std::vector<double> all;
    for (const auto& [n, s] : by_size) all.push_back(std::max(median(s.*which), 1e-3));
    return cenote::sim::unimodal(all);
}

measured_level evaluate(std::size_t n, const samples& s, double alone, double crowded) {
    // A cycle is the time of one connection from lease to lease; the statement's part was measured.
    // With more borrowers than connections throughput may be higher, as no processor idles.
    double cycle = static_cast<double>(n) / std::max(alone, crowded);
    double measured_cycle = static_cast<double>(n) * s.together.seconds /
                            static_cast<double>(std::max<std::uint64_t>(s.together.leases, 1));
    double part = std::min(1.0, command::in_seconds(s.together.work.mean()) / measured_cycle);
    // Reading the clock and the loop take time, too; do not count that as a reset.
    if (part > 0.95) part = 1;
    measured_level m;
    m.throughput = alone;
    m.crowded = crowded;
    m.level.at_once = n;
    m.level.reset = from_seconds((1 - part) * cycle);
    m.level.handover = from_seconds(std::max(0.0, static_cast<double>(n) / crowded - cycle));
    std::vector<nanoseconds> shares = s.together.work.shares(cenote::sim::measured_server::shares);
    double mean =
        command::in_seconds(std::accumulate(shares.begin(), shares.end(), nanoseconds{})) /
        static_cast<double>(shares.size());
    for (nanoseconds share : shares)
        m.level.service.push_back(from_seconds(command::in_seconds(share) * part * cycle / mean));
    return m;
}

}  // namespace

cenote::sim::measured_server measurement::server() const {
    std::vector<cenote::sim::level> all;
    for (const measured_level& m : levels) all.push_back(m.level);
    return cenote::sim::measured_server(all, open);
}

measurement measure(target& where, const plan& what, std::size_t most, const measure_options& o) {
    std::vector<std::size_t> sizes = levels_up_to(most);
    nanoseconds statement = statement_time(where, o);
    nanoseconds each = sample_length(o, o.rounds * sizes.size() * 2, 5 * statement,
                                     "one statement takes " + command::in_words(statement));
    plan p = what;
    p.rate = 0;
    p.hold = {};
    std::map<std::size_t, samples> by_size;
    cenote::histogram opens;
    bool all = in_rounds(sizes.size(), o, [&](std::size_t i, std::size_t round) {
        std::size_t n = sizes[i];
        auto pool = where.open(pool_of(n));
        p.seed = what.seed + round;
        // The hand-over time depends on the number of waiters. The crowded sample comes first,
        // because new connections are slow at first.
        p.borrowers = std::max(n + 2, what.borrowers);
        result crowded = sample(*pool, p, each, 1.0 / 3, o);
        p.borrowers = n;
        result alone = sample(*pool, p, each, 0.1, o);
        if (o.stop.stop_requested()) return;
        by_size[n].alone.push_back(alone.throughput());
        by_size[n].crowded.push_back(crowded.throughput());
        opens += crowded.stats.open;
        by_size[n].together += alone;
    });
    measurement m;
    m.interrupted = !all;
    m.open = opens.quantile(0.5);
    if (by_size.size() < sizes.size()) return m;
    std::vector<double> alone = medians(by_size, &samples::alone);
    std::vector<double> crowded = medians(by_size, &samples::crowded);
    for (std::size_t i = 0; i < sizes.size(); ++i)
        m.levels.push_back(evaluate(sizes[i], by_size[sizes[i]], alone[i], crowded[i]));
    return m;
}

std::vector<cenote::sim::sized> try_sizes(target& where, const plan& what,
                                          const std::vector<std::size_t>& sizes,
                                          const measure_options& o) {
    struct tries {
        std::vector<double> throughput, wait_median, wait_p99, total_p95;
    };
    nanoseconds least = 5 * statement_time(where, o);
    if (what.rate > 0) least = std::max(least, from_seconds(5 / what.rate));
    nanoseconds each = sample_length(o, o.rounds * sizes.size(), least,
                                     "a few leases take " + command::in_words(least));
    plan p = what;
    std::map<std::size_t, tries> by_size;
    in_rounds(sizes.size(), o, [&](std::size_t i, std::size_t round) {
        auto pool = where.open(pool_of(sizes[i]));
        p.seed = what.seed + round;  // equal arrivals for all sizes
        result r = sample(*pool, p, each, 0.25, o);
        if (o.stop.stop_requested()) return;
        tries& t = by_size[sizes[i]];
        t.throughput.push_back(r.throughput());
        t.wait_median.push_back(static_cast<double>(r.wait.quantile(0.5).count()));
        t.wait_p99.push_back(static_cast<double>(r.wait.quantile(0.99).count()));
        t.total_p95.push_back(static_cast<double>(r.total.quantile(0.95).count()));
    });
    std::vector<cenote::sim::sized> all;
    if (by_size.size() < sizes.size()) return all;
    auto time = [](const std::vector<double>& of) { return from_seconds(median(of) / 1e9); };
    for (const auto& [max, t] : by_size)
        all.push_back({.max = max,
                       .throughput = median(t.throughput),
                       .wait_median = time(t.wait_median),
                       .wait_p99 = time(t.wait_p99),
                       .total_p95 = time(t.total_p95)});
    return all;
}

}  // namespace load

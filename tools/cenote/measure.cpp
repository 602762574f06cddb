// Many short looks, in turn.
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

nanoseconds seconds(double s) { return nanoseconds{static_cast<nanoseconds::rep>(s * 1e9)}; }

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

/// Goes through all of them in rounds, up and down in turn, until time or patience is over.
template <class Look>
bool in_rounds(std::size_t count, const effort& e, Look look) {
    for (std::size_t round = 0; round < e.rounds; ++round)
        for (std::size_t i = 0; i < count; ++i) {
            if (e.told)
                e.told(static_cast<double>(round * count + i) /
                       static_cast<double>(e.rounds * count));
            look(round % 2 == 0 ? i : count - 1 - i, round);
            if (e.stop.stop_requested()) return false;
        }
    return true;
}

[[noreturn]] void refuse(const std::string& said) {
    throw command::failure("the server would not run the statement: " + said);
}

void refuse_failures(const result& r) {
    if (r.failures > 0) refuse(r.first_failure);
}

/// How long one statement takes if nobody else wants anything.
nanoseconds statement_time(target& where, const effort& e) {
    auto pool = where.open(pool_of(1));
    std::vector<double> taken;
    // The first has everything still to be read and compiled.
    for (std::int64_t i = 0; i < 3 && !e.stop.stop_requested(); ++i) {
        moments when;
        try {
            if (pool->run({.key = i}, e.stop, when)) break;
        } catch (const std::exception& error) {
            refuse(error.what());
        }
        taken.push_back(static_cast<double>((when.done - when.granted).count()));
    }
    return taken.empty() ? nanoseconds{} : seconds(median(taken) / 1e9);
}

/// So long each of `count` looks is, of which each needs `least`.
nanoseconds length_of_a_look(const effort& e, std::size_t count, nanoseconds least,
                             const std::string& because) {
    auto looks = static_cast<nanoseconds::rep>(count);
    nanoseconds each = std::max(e.duration / looks, least);
    // Somewhat longer than was asked for is better than no answer.
    if (each * looks <= std::max<nanoseconds>(3 * e.duration, e.duration + 10s)) return each;
    throw command::failure(because + ": too long for " + std::to_string(count) + " looks in " +
                               command::in_words(e.duration),
                           "A --duration of " + command::in_words(least * looks) +
                               " would do, or a smaller --up-to.");
}

/// A look at which something is seen. What nobody finished says nothing about a size.
result look(target_pool& pool, plan p, nanoseconds each, double warm_up, const effort& e) {
    for (int longer = 1;; longer *= 2) {
        p.warm_up = seconds(std::chrono::duration<double>(each).count() * longer * warm_up);
        p.duration = each * longer - p.warm_up;
        result r = run(pool, p, e.stop);
        refuse_failures(r);
        if (r.leases > 0 || e.stop.stop_requested()) return r;
        if (longer >= 16)
            throw command::failure("with " + std::to_string(p.borrowers) +
                                       " borrowers nobody was done in " +
                                       command::in_words(each * longer),
                                   "Try a longer --duration, or a smaller --up-to.");
    }
}

/// What was seen at one concurrency, round by round.
struct looks {
    std::vector<double> alone, crowded;
    result together;
};

/// Medians of throughput, in the shape they must have.
std::vector<double> shaped(const std::map<std::size_t, looks>& seen,
                           std::vector<double> looks::* which) {
    std::vector<double> all;
    for (const auto& [n, l] : seen) all.push_back(std::max(median(l.*which), 1e-3));
    return cenote::sim::unimodal(all);
}

measured_level conclude(std::size_t n, const looks& l, double alone, double crowded) {
    // A cycle is what one connection takes from lease to lease; the server's part of it is known.
    // A crowd may be faster than as many as there are connections: then nobody's processor idles.
    double cycle = static_cast<double>(n) / std::max(alone, crowded);
    double seen = static_cast<double>(n) * l.together.seconds /
                  static_cast<double>(std::max<std::uint64_t>(l.together.leases, 1));
    double work = std::chrono::duration<double>(l.together.work.mean()).count();
    double part = std::min(1.0, work / seen);
    // The clock and the loop take their time, too: that is no reset.
    if (part > 0.95) part = 1;
    measured_level m;
    m.throughput = alone;
    m.crowded = crowded;
    m.level.at_once = n;
    m.level.reset = seconds((1 - part) * cycle);
    m.level.handover = seconds(std::max(0.0, static_cast<double>(n) / crowded - cycle));
    std::vector<nanoseconds> shares = l.together.work.shares(cenote::sim::measured_server::shares);
    double mean =
        std::chrono::duration<double>(std::accumulate(shares.begin(), shares.end(), nanoseconds{}))
            .count() /
        static_cast<double>(shares.size());
    for (nanoseconds share : shares)
        m.level.service.push_back(
            seconds(std::chrono::duration<double>(share).count() * part * cycle / mean));
    return m;
}

}  // namespace

cenote::sim::measured_server measurement::server() const {
    std::vector<cenote::sim::level> all;
    for (const measured_level& m : levels) all.push_back(m.level);
    return cenote::sim::measured_server(all, open);
}

measurement measure(target& where, const plan& what, std::size_t most, const effort& e) {
    std::vector<std::size_t> sizes = levels_up_to(most);
    nanoseconds statement = statement_time(where, e);
    nanoseconds each = length_of_a_look(e, e.rounds * sizes.size() * 2, 5 * statement,
                                        "one statement takes " + command::in_words(statement));
    plan p = what;
    p.rate = 0;
    p.hold = {};
    std::map<std::size_t, looks> seen;
    cenote::histogram opens;
    bool all = in_rounds(sizes.size(), e, [&](std::size_t i, std::size_t round) {
        std::size_t n = sizes[i];
        auto pool = where.open(pool_of(n));
        p.seed = what.seed + round;
        // How long it takes to wake somebody depends on how many sleep. They come first, since new
        // connections are slow to begin with.
        p.borrowers = std::max(n + 2, what.borrowers);
        result crowded = look(*pool, p, each, 1.0 / 3, e);
        p.borrowers = n;
        result alone = look(*pool, p, each, 0.1, e);
        if (e.stop.stop_requested()) return;
        seen[n].alone.push_back(alone.throughput());
        seen[n].crowded.push_back(crowded.throughput());
        opens += crowded.stats.open;
        seen[n].together += alone;
    });
    measurement m;
    m.interrupted = !all;
    m.open = opens.quantile(0.5);
    if (seen.size() < sizes.size()) return m;
    std::vector<double> alone = shaped(seen, &looks::alone);
    std::vector<double> crowded = shaped(seen, &looks::crowded);
    for (std::size_t i = 0; i < sizes.size(); ++i)
        m.levels.push_back(conclude(sizes[i], seen[sizes[i]], alone[i], crowded[i]));
    return m;
}

std::vector<cenote::sim::sized> try_sizes(target& where, const plan& what,
                                          const std::vector<std::size_t>& sizes, const effort& e) {
    struct tries {
        std::vector<double> throughput, wait_median, wait_p99, total_p95;
    };
    nanoseconds least = 5 * statement_time(where, e);
    // And somebody has to come.
    if (what.rate > 0) least = std::max(least, seconds(5 / what.rate));
    nanoseconds each = length_of_a_look(e, e.rounds * sizes.size(), least,
                                        "to see a few leases takes " + command::in_words(least));
    plan p = what;
    std::map<std::size_t, tries> seen;
    in_rounds(sizes.size(), e, [&](std::size_t i, std::size_t round) {
        auto pool = where.open(pool_of(sizes[i]));
        p.seed = what.seed + round;  // the same arrivals for each size
        result r = look(*pool, p, each, 0.25, e);
        if (e.stop.stop_requested()) return;
        tries& t = seen[sizes[i]];
        t.throughput.push_back(r.throughput());
        t.wait_median.push_back(static_cast<double>(r.wait.quantile(0.5).count()));
        t.wait_p99.push_back(static_cast<double>(r.wait.quantile(0.99).count()));
        t.total_p95.push_back(static_cast<double>(r.total.quantile(0.95).count()));
    });
    std::vector<cenote::sim::sized> all;
    if (seen.size() < sizes.size()) return all;
    auto time = [](const std::vector<double>& of) { return seconds(median(of) / 1e9); };
    for (const auto& [max, t] : seen)
        all.push_back({.max = max,
                       .throughput = median(t.throughput),
                       .wait_median = time(t.wait_median),
                       .wait_p99 = time(t.wait_p99),
                       .total_p95 = time(t.total_p95)});
    return all;
}

}  // namespace load

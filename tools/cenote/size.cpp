// Measures, simulates, recommends, and tries the recommendation if asked to.
#include "size.hpp"

#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "measure.hpp"
#include "sim/sizing.hpp"
#include "size_report.hpp"
#include "target.hpp"

namespace sizing {

using namespace std::chrono_literals;

namespace {

/// What the server has for everybody, and for each.
void find_limit(const settings& how, load::target& where, findings& f) {
    f.limit = where.limit();
    std::size_t limit = how.limit;
    f.limit_said_by = "--limit";
    if (limit == 0) {
        if (!f.limit) return;
        limit = f.limit->connections;
        f.limit_said_by = f.limit->said_by;
    }
    f.question.share = cenote::sim::server_share{limit, how.processes};
    if (f.question.share->most() == 0)
        throw command::failure(
            std::to_string(how.processes) + " processes cannot share " + std::to_string(limit) +
                " connections, of which " + std::to_string(f.question.share->margin()) +
                " are left for others.",
            "Raise the server's limit, or put a pooler such as PgBouncer in between.");
}

/// So many the server can be asked for while it is being measured.
std::size_t most_to_try(const settings& how, const findings& f) {
    std::size_t most = how.up_to;
    // Beyond that, some would never be used.
    if (how.rate <= 0) most = std::min(most, how.concurrency * how.processes);
    if (f.question.share) {
        cenote::sim::server_share alone{f.question.share->limit, 1};
        most = std::min(most, alone.most());
    }
    if (f.limit) {
        // One to drop the table with.
        std::size_t taken = f.limit->in_use + 1;
        if (f.limit->connections <= taken)
            throw command::failure("the server takes " + std::to_string(f.limit->connections) +
                                       " connections (" + f.limit->said_by + "), of which " +
                                       std::to_string(f.limit->in_use) +
                                       " are in use: none is left to measure with",
                                   "Ask again when fewer are in use.");
        most = std::min(most, f.limit->connections - taken);
    }
    return std::max<std::size_t>(most, 1);
}

/// All processes together; but a crowd is a crowd, and each is a thread here.
std::size_t crowd(const settings& how, const findings& f) {
    return std::min(how.concurrency * how.processes,
                    std::max(how.concurrency, 2 * f.question.most));
}

trial try_out(const settings& how, load::target& where, const findings& f, load::plan what,
              load::effort e) {
    what.rate = how.rate * static_cast<double>(how.processes);
    what.hold = how.hold;
    if (how.rate > 0) what.borrowers = std::max(what.borrowers, 2 * f.question.most);
    e.duration = 2 * how.duration;
    e.rounds = 9;
    trial t;
    t.curve = load::try_sizes(where, what, cenote::sim::sizes_to_try(f.question.most), e);
    t.best = cenote::sim::best_size(t.curve, {.rate = what.rate, .reach = how.reach});
    // Whether the server has so many is another question than which is best.
    if (t.best > 0)
        t.difference = static_cast<double>(f.advice->together) / static_cast<double>(t.best) - 1;
    return t;
}

/// Each step says of itself how far it is.
std::function<void(double)> telling(terminal::progress& bar, double from, double to) {
    return [&bar, from, to](double share) { bar.at(from + share * (to - from)); };
}

findings find_out(const settings& how, const terminal::interruption& interrupted) {
    terminal::progress bar("size", how.look.json);
    bar.at(0);
    auto where = load::find_target(how.url, how.statement);
    findings f;
    f.server = where->name();
    find_limit(how, *where, f);
    f.question.rate = how.rate;
    f.question.reach = how.reach;
    f.question.borrowers = how.concurrency;
    f.question.hold = how.hold;
    f.question.processes = how.processes;
    f.question.seed = how.seed;
    f.question.most = most_to_try(how, f);
    f.no_more_to_try =
        f.question.most <
        std::min(how.up_to, how.rate > 0 ? how.up_to : how.concurrency * how.processes);
    double measured = how.brute_force ? 0.3 : 0.9,
           simulated = measured + (how.brute_force ? 0.02 : 0.1);
    load::plan what;
    what.writes = where->writes() ? how.writes : 0;
    what.seed = how.seed;
    what.borrowers = crowd(how, f);
    load::effort e;
    e.duration = how.duration;
    e.stop = interrupted.token();
    e.told = telling(bar, 0, measured);
    f.measured = load::measure(*where, what, f.question.most, e);
    f.interrupted = f.measured.interrupted;
    if (f.measured.levels.empty()) return f;
    // Whoever interrupted the measurement wants an answer from what there is, and soon.
    bool soon = f.interrupted;
    if (soon) f.question.leases /= 10;
    cenote::sim::enough is_enough([&] { return !soon && interrupted.happened(); });
    f.advice = cenote::sim::advise(f.measured.server(), f.question,
                                   telling(bar, measured, simulated), is_enough);
    if (is_enough()) {
        f.advice.reset();
        f.interrupted = true;
    }
    if (!how.brute_force || f.interrupted) return f;
    e.told = telling(bar, simulated, 1);
    trial t = try_out(how, *where, f, what, e);
    f.interrupted = interrupted.happened();
    if (!t.curve.empty()) f.tried = t;
    return f;
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    CLI::App* word = app.add_subcommand(
        "size",
        "How large should a pool be? Measures the server under rising concurrency, simulates "
        "pools of each size on it, and recommends max, min_idle and acquire_timeout.");
    word->add_option("url", into.url,
                     "Server: postgresql://…, mariadb://… or sqlite:/path. Without it, an SQLite "
                     "file that goes at the end. Uses a table of its own (cenote_bench_…).");
    auto* rate = word->add_option(
        "--rate", into.rate,
        "Arrivals per second at this pool. Without it: as many as the server can do");
    rate->check(CLI::Range(1e-3, 1e6));
    word->add_option("--concurrency", into.concurrency,
                     "Without --rate: how many want a lease, in each process")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    auto* reach = word->add_option(
        "--reach", into.reach,
        "Without --rate: the smallest pool that brings this share of the most leases per second");
    reach->capture_default_str()->check(CLI::Range(0.01, 1.0))->excludes(rate);
    word->add_option("--up-to", into.up_to,
                     "How many connections are tried, by all processes together")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    word->add_option("--processes", into.processes,
                     "How many processes will have such a pool on this server")
        ->capture_default_str()
        ->check(CLI::Range(1, 1'000'000));
    word->add_option("--limit", into.limit,
                     "How many connections there are for them; without it the server is asked")
        ->check(CLI::PositiveNumber);
    word->add_option("--mix", into.writes, "The share of errands that write, from 0 to 1")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    word->add_option("--statement", into.statement,
                     "Your own statement, without parameters, instead of those on the order book");
    command::add_duration(*word, "--hold", into.hold,
                          "How long a lease is held beyond its statement");
    command::add_duration(*word, "--duration", into.duration,
                          "How long the server is measured (default 20s)");
    word->add_flag("--brute-force", into.brute_force,
                   "Also try real pools of every size, and compare");
    word->add_option("--seed", into.seed, "Of the simulation")->capture_default_str();
    word->add_option("--svg", into.svg, "Draw the curve into this file");
    command::add_password(*word, into.password);
    command::add_look(*word, into.look);
    word->footer(
        "Examples:\n"
        "  cenote size\n"
        "  cenote size postgresql://app@db/orders --rate 800 --processes 12\n"
        "  cenote size postgresql://app@db/orders --hold 5ms --svg size.svg\n"
        "  cenote size postgresql://app@db/orders --reach 0.95\n"
        "  cenote size --brute-force\n"
        "Run it where the service will run, on a server that nobody else needs meanwhile.");
    return word;
}

int run(const settings& given) {
    settings how = given;
    how.url = command::complete_url(given.url, given.password);
    if (how.duration < 500ms) throw command::wrong_arguments("--duration: at least 500ms");
    terminal::interruption interrupted;
    command::output_file svg(how.svg);
    findings f = find_out(how, interrupted);
    if (f.advice) svg.write([&] { return to_svg(f); });
    if (how.look.json) command::print_json(to_json(f));
    else std::fputs(to_text(f, terminal::palette(how.look.colors)).c_str(), stdout);
    return f.interrupted ? command::interrupted : command::fine;
}

}  // namespace sizing

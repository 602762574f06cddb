// Options of cenote size; measures, simulates, recommends, and tries real pools on request.
#include "size.hpp"

#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "checks.hpp"
#include "help.hpp"
#include "measure.hpp"
#include "sim/sizing.hpp"
#include "size_report.hpp"
#include "target.hpp"

namespace sizing {

using namespace std::chrono_literals;

namespace {

/// Determines the connection limit, and the share of each process.
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
                " connections: " + std::to_string(f.question.share->margin()) +
                " of them must stay free for other clients",
            "Raise the server's limit, or put a pooler such as PgBouncer in front of it.");
}

/// The largest number of connections that the measurement may use.
std::size_t most_to_try(const settings& how, const findings& f) {
    std::size_t most = how.up_to;
    // More connections than borrowers would stay unused.
    if (how.rate <= 0) most = std::min(most, how.concurrency * how.processes);
    if (f.question.share) {
        cenote::sim::server_share alone{f.question.share->limit, 1};
        most = std::min(most, alone.most());
    }
    if (f.limit) {
        // One more is needed to drop the table.
        std::size_t taken = f.limit->in_use + 1;
        if (f.limit->connections <= taken)
            throw command::failure("the server accepts " + std::to_string(f.limit->connections) +
                                       " connections (" + f.limit->said_by + "), of which " +
                                       std::to_string(f.limit->in_use) +
                                       " are in use: too few are left for a measurement",
                                   "Try again when fewer are in use.");
        most = std::min(most, f.limit->connections - taken);
    }
    return std::max<std::size_t>(most, 1);
}

/// The borrowers of all processes, but not many more than are needed to keep the line full: each is
/// a thread.
std::size_t borrowers(const settings& how, const findings& f) {
    return std::min(how.concurrency * how.processes,
                    std::max(how.concurrency, 2 * f.question.most));
}

trial try_out(const settings& how, load::target& where, const findings& f, load::plan what,
              load::measure_options o) {
    what.rate = how.rate * static_cast<double>(how.processes);
    what.hold = how.hold;
    if (how.rate > 0) what.borrowers = std::max(what.borrowers, 2 * f.question.most);
    o.duration = 2 * how.duration;
    o.rounds = 9;
    trial t;
    t.curve = load::try_sizes(where, what, cenote::sim::sizes_to_try(f.question.most), o);
    t.best = cenote::sim::best_size(t.curve, {.rate = what.rate, .reach = how.reach});
    // Compare with the advice without the server's limit.
    if (t.best > 0)
        t.difference = static_cast<double>(f.advice->together) / static_cast<double>(t.best) - 1;
    return t;
}

/// Maps the progress of one step to its part of the bar.
std::function<void(double)> part_of(terminal::progress& bar, double from, double to) {
    return [&bar, from, to](double share) { bar.at(from + share * (to - from)); };
}

findings measure(const settings& how, const terminal::interruption& interrupted) {
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
    what.borrowers = borrowers(how, f);
    load::measure_options o;
    o.duration = how.duration;
    o.stop = interrupted.token();
    o.on_progress = part_of(bar, 0, measured);
    f.measured = load::measure(*where, what, f.question.most, o);
    f.interrupted = f.measured.interrupted;
    if (f.measured.levels.empty()) return f;
    // After an interruption, recommend soon, from the measurements so far.
    bool soon = f.interrupted;
    if (soon) f.question.leases /= 10;
    cenote::sim::enough is_enough([&] { return !soon && interrupted.happened(); });
    f.advice = cenote::sim::advise(f.measured.server(), f.question,
                                   part_of(bar, measured, simulated), is_enough);
    if (is_enough()) {
        f.advice.reset();
        f.interrupted = true;
    }
    if (!how.brute_force || f.interrupted) return f;
    o.on_progress = part_of(bar, simulated, 1);
    trial t = try_out(how, *where, f, what, o);
    f.interrupted = interrupted.happened();
    if (!t.curve.empty()) f.tried = t;
    return f;
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    CLI::App* options = app.add_subcommand(
        "size",
        "Measures the server under rising concurrency, simulates pools of each size on it, and "
        "recommends max, min_idle and acquire_timeout.");
    load::add_target(*options, into.url, into.statement, into.writes);
    auto* rate = options->add_option(
        "--rate", into.rate,
        "Arrivals per second in each process. Default: as many as the server can serve");
    rate->check(command::from_to(1e-3, 1e6));
    options
        ->add_option("--concurrency", into.concurrency,
                     "Number of borrowers in each process, without --rate")
        ->capture_default_str()
        ->check(command::from_to(1, 1000));
    auto* reach = options->add_option(
        "--reach", into.reach,
        "Share of the highest throughput that the recommended pool reaches, without --rate");
    reach->capture_default_str()->check(command::from_to(0.01, 1.0))->excludes(rate);
    options
        ->add_option("--up-to", into.up_to,
                     "Largest number of connections to try, for all processes together")
        ->capture_default_str()
        ->check(command::from_to(1, 1000));
    options
        ->add_option("--processes", into.processes,
                     "Number of processes with such a pool on this server")
        ->capture_default_str()
        ->check(command::from_to(1, 1'000'000));
    options
        ->add_option(
            "--limit", into.limit,
            "Number of connections that all processes may use together. Default: the server's "
            "limit")
        ->check(command::from_to(1, 1'000'000));
    command::add_duration(*options, "--hold", into.hold,
                          "How long a lease is held after its statement")
        ->option_text("TIME=0");
    command::add_duration(*options, "--duration", into.duration, "How long the server is measured")
        ->option_text("TIME=20s");
    options->add_flag("--brute-force", into.brute_force,
                      "Also run real pools of every size, and compare");
    options->add_option("--seed", into.seed, "Seed of the simulation")->capture_default_str();
    options->add_option("--svg", into.svg, "Write a chart of throughput by pool size to this file")
        ->option_text("FILE");
    command::add_password(*options, into.password);
    command::add_look(*options, into.look);
    command::add_footer(
        *options,
        "Examples:\n"
        "  cenote size\n"
        "  cenote size postgresql://app@db/orders --rate 800 --processes 12\n"
        "  cenote size postgresql://app@db/orders --hold 5ms --svg size.svg\n"
        "  cenote size postgresql://app@db/orders --reach 0.95\n"
        "  cenote size --brute-force\n"
        "\n"
        "Run it on the machine of the service, against a server without other load.\n",
        {{command::fine, "a size is recommended"},
         {command::failed, "the server cannot be measured"},
         {command::wrong_usage, "invalid arguments; nothing was done"},
         {command::interrupted, "interrupted; the results are incomplete"}});
    return options;
}

int run(const settings& given) {
    settings how = given;
    how.url = command::complete_url(given.url, given.password);
    if (how.duration < 500ms) throw command::wrong_arguments("--duration must be at least 500ms");
    terminal::interruption interrupted;
    command::output_file svg(how.svg);
    findings f = measure(how, interrupted);
    if (f.advice) svg.write([&] { return to_svg(f); });
    if (how.look.json) command::print_json(to_json(f));
    else std::fputs(to_text(f, terminal::palette(how.look.colors)).c_str(), stdout);
    return f.interrupted ? command::interrupted : command::fine;
}

}  // namespace sizing

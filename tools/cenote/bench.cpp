// Options of cenote bench; runs the load for each pool size in turn.
#include "bench.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>

#include <CLI/CLI.hpp>

#include "bench_report.hpp"
#include "checks.hpp"
#include "help.hpp"
#include "load.hpp"
#include "target.hpp"

namespace bench {

using namespace std::chrono_literals;

namespace {

cenote::options pool_of(const settings& how, std::size_t max) {
    cenote::options o;
    o.name = "bench";
    o.max = o.min_size = max;
    o.warm_up = cenote::warm_up::wait;
    o.acquire_timeout = how.acquire_timeout;
    o.seed = how.seed;
    return o;
}

load::plan plan_of(const settings& how, const load::target& where) {
    load::plan p;
    p.borrowers = how.concurrency;
    p.rate = how.rate;
    p.writes = where.writes() ? how.writes : 0;
    p.hold = how.hold;
    p.warm_up = how.warm_up;
    p.duration = how.duration;
    p.loops = how.loops;
    p.seed = how.seed;
    return p;
}

findings measure(const settings& how, const terminal::interruption& interrupted) {
    terminal::progress bar("bench", how.look.json);
    auto where = load::find_target(how.url, how.statement);
    findings f;
    f.server = where->name();
    load::plan p = plan_of(how, *where);
    for (std::size_t max : how.sizes) {
        if (interrupted.happened()) break;
        auto pool = where->open(pool_of(how, max));
        auto done = static_cast<double>(f.all.size()), all = static_cast<double>(how.sizes.size());
        load::result r = load::run(*pool, p, interrupted.token(), [&](double share) {
            bar.at((done + share) / all, "max " + std::to_string(max));
        });
        if (r.failures > 0 && r.leases == 0)
            throw command::failure(
                "the statement failed: " + command::without_prefix(r.first_failure),
                how.statement.empty() ? "" : "--statement takes SQL without parameters.");
        // Skip a size that was interrupted before the first lease.
        if (r.seconds > 0 && (r.leases > 0 || !r.interrupted)) f.all.push_back({max, std::move(r)});
    }
    f.interrupted = interrupted.happened();
    return f;
}

std::vector<std::size_t> parse_sizes(std::string_view text) {
    std::vector<std::size_t> all;
    for (const char *at = text.data(), *end = at + text.size();; ++at) {
        std::size_t size = 0;
        auto [next, error] = std::from_chars(at, end, size);
        if (error != std::errc() || (next != end && *next != ','))
            throw CLI::ValidationError("--max", "must be a list of sizes such as 8 or 4,8,16");
        all.push_back(size);
        at = next;
        if (at == end) return all;
    }
}

void check(const settings& how) {
    if (how.duration < 10ms) throw command::wrong_arguments("--duration must be at least 10ms");
    for (std::size_t max : how.sizes)
        if (max == 0 || max > 10'000)
            throw command::wrong_arguments("--max must be from 1 to 10000, not " +
                                           std::to_string(max));
    if (how.loops == 0 && how.concurrency > 2000)
        throw command::wrong_arguments("--concurrency must be at most 2000 without --threads",
                                       "With --threads N the borrowers are coroutines.");
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    CLI::App* options = app.add_subcommand(
        "bench",
        "Runs a load through pools of one or several sizes on a real server; reports throughput, "
        "wait times and hold times.");
    load::add_target(*options, into.url, into.statement, into.writes);
    // A single argument: the next one may be the URL.
    options
        ->add_option_function<std::string>(
            "--max", [&into](const std::string& text) { into.sizes = parse_sizes(text); },
            "Pool sizes, one or several: 4,8,16")
        ->option_text("LIST=" + std::to_string(into.sizes.front()));
    options->add_option("--concurrency", into.concurrency, "Number of borrowers")
        ->capture_default_str()
        ->check(command::from_to(1, 100'000));
    options
        ->add_option("--threads", into.loops,
                     "Run the borrowers as coroutines on this many threads. Default: each borrower "
                     "is a thread")
        ->check(command::from_to(1, 64));
    options
        ->add_option("--rate", into.rate,
                     "Arrivals per second. Default: each borrower starts again as soon as it is "
                     "done")
        ->check(command::from_to(1e-3, 1e6));
    command::add_duration(*options, "--hold", into.hold,
                          "How long a lease is held after its statement")
        ->option_text("TIME=0");
    command::add_duration(*options, "--duration", into.duration, "How long each size is measured")
        ->option_text("TIME=5s");
    command::add_duration(*options, "--warm-up", into.warm_up,
                          "How long the load runs before it is measured, for each size")
        ->option_text("TIME=500ms");
    command::add_duration(*options, "--acquire-timeout", into.acquire_timeout,
                          "How long a borrower waits for a lease before it is refused")
        ->option_text("TIME=5s");
    options->add_option("--seed", into.seed, "Seed of the random arrivals and of --mix")
        ->capture_default_str();
    options->add_option("--json-file", into.json_file, "Write the JSON document to this file")
        ->option_text("FILE");
    options->add_option("--html", into.html, "Write a page with charts to this file")
        ->option_text("FILE");
    command::add_password(*options, into.password);
    command::add_look(*options, into.look);
    command::add_footer(
        *options,
        "Examples:\n"
        "  cenote bench --max 2,4,8,16 --html bench.html\n"
        "  cenote bench postgresql://app@db/orders --concurrency 200 --threads 4\n"
        "  cenote bench postgresql://app@db/orders --rate 500 --hold 3ms --max 8\n"
        "  cenote bench sqlite:/var/lib/orders.db --statement 'SELECT count(*) FROM orders'\n"
        "\n"
        "Ctrl-C ends the run early and prints the results so far.\n",
        {{command::fine, "all statements succeeded"},
         {command::failed,
          "a statement failed, no borrower got a lease, or the server cannot be "
          "reached"},
         {command::wrong_usage, "invalid arguments; nothing was done"},
         {command::interrupted, "interrupted; the results are incomplete"}});
    return options;
}

int run(const settings& given) {
    check(given);
    settings how = given;
    how.url = command::complete_url(given.url, given.password);
    terminal::interruption interrupted;
    command::output_file json_file(how.json_file), html(how.html);
    findings f = measure(how, interrupted);
    json_file.write([&] { return command::to_text(to_json(how, f)) + "\n"; });
    html.write([&] { return to_html(how, f); });
    if (how.look.json) command::print_json(to_json(how, f));
    else std::fputs(to_text(how, f, terminal::palette(how.look.colors)).c_str(), stdout);
    // No lease at all is a failure, too.
    bool failed = std::any_of(f.all.begin(), f.all.end(), [](const outcome& one) {
        return one.seen.failures > 0 || (one.seen.leases == 0 && refusals(one.seen) > 0);
    });
    if (failed) return command::failed;
    return f.interrupted ? command::interrupted : command::fine;
}

}  // namespace bench

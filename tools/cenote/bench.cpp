// Runs the load for each size in turn, and says what it saw.
#include "bench.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string_view>
#include <system_error>

#include <CLI/CLI.hpp>

#include "bench_report.hpp"
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
            throw command::failure("the server would not run the statement: " + r.first_failure);
        // A size of which nothing was seen says nothing.
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
            throw CLI::ValidationError("--max", "sizes are like 8 or 4,8,16");
        all.push_back(size);
        at = next;
        if (at == end) return all;
    }
}

void check(const settings& how) {
    if (how.duration < 10ms) throw command::wrong_arguments("--duration: at least 10ms");
    for (std::size_t max : how.sizes)
        if (max == 0 || max > 10'000)
            throw command::wrong_arguments("--max: from 1 to 10000, not " + std::to_string(max));
    if (how.loops == 0 && how.concurrency > 2000)
        throw command::wrong_arguments("--concurrency: at most 2000 threads",
                                       "With --threads N borrowers are coroutines.");
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    CLI::App* word = app.add_subcommand("bench",
                                        "A load through a pool on a real server: throughput, and "
                                        "how long leases are waited for and "
                                        "held. Compares pool sizes side by side.");
    word->add_option("url", into.url,
                     "Server: postgresql://…, mariadb://… or sqlite:/path. Without it, an SQLite "
                     "file that goes at the end. Uses a table of its own (cenote_bench_…).");
    // One argument: what follows it may be the URL.
    word->add_option_function<std::string>(
            "--max", [&into](const std::string& text) { into.sizes = parse_sizes(text); },
            "Pool sizes, one or several: 4,8,16")
        ->option_text("N,…=" + std::to_string(into.sizes.front()));
    word->add_option("--concurrency", into.concurrency, "How many borrowers there are")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    word->add_option("--threads", into.loops,
                     "Borrowers are coroutines on so many threads. Without it: each is a thread")
        ->check(CLI::Range(1, 64));
    word->add_option("--rate", into.rate,
                     "Arrivals per second. Without it each borrower comes again when it is done")
        ->check(CLI::Range(1e-3, 1e6));
    word->add_option("--mix", into.writes, "The share of errands that write, from 0 to 1")
        ->capture_default_str()
        ->check(CLI::Range(0.0, 1.0));
    word->add_option("--statement", into.statement,
                     "Your own statement, without parameters, instead of those on the order book");
    command::add_duration(*word, "--hold", into.hold,
                          "How long a lease is held beyond its statement");
    command::add_duration(*word, "--duration", into.duration, "How long, each size (default 5s)");
    command::add_duration(*word, "--warm-up", into.warm_up,
                          "How long before anything counts (default 500ms)");
    command::add_duration(*word, "--acquire-timeout", into.acquire_timeout,
                          "How long to wait for a lease (default 5s)");
    word->add_option("--seed", into.seed, "Of arrivals and of the mix")->capture_default_str();
    word->add_option("--json-file", into.json_file, "Write what --json prints into this file");
    word->add_option("--html", into.html, "Write a page with charts into this file");
    command::add_password(*word, into.password);
    command::add_look(*word, into.look);
    word->footer(
        "Examples:\n"
        "  cenote bench --max 2,4,8,16 --html bench.html\n"
        "  cenote bench postgresql://app@db/orders --concurrency 200 --threads 4\n"
        "  cenote bench postgresql://app@db/orders --rate 500 --hold 3ms --max 8\n"
        "  cenote bench sqlite:/var/lib/orders.db --statement 'SELECT count(*) FROM orders'\n"
        "Ctrl-C ends it early, with what was seen until then.");
    return word;
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
    // Also if there was nobody at all who got a lease.
    bool failed = std::any_of(f.all.begin(), f.all.end(), [](const outcome& one) {
        return one.seen.failures > 0 || (one.seen.leases == 0 && refusals(one.seen) > 0);
    });
    if (failed) return command::failed;
    return f.interrupted ? command::interrupted : command::fine;
}

}  // namespace bench

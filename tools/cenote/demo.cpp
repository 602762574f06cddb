// Runs the orders service, its clients and the dashboard; prints a live line and a summary.
#include "demo.hpp"

#include <boost/json.hpp>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <random>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>

#include "checks.hpp"
#include "demo_clients.hpp"
#include "examples/orders_service/running.hpp"
#include "help.hpp"
#include "temporary_folder.hpp"
#include "terminal.hpp"
#include <cenote/dashboard.hpp>

namespace demo {

namespace json = boost::json;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

/// The control token of the dashboard; printed, so that only the user of the demo knows it.
std::string random_token() {
    constexpr std::string_view letters = "abcdefghjkmnpqrstuvwxyz23456789";
    std::random_device random;
    std::string token;
    for (int i = 0; i < 24; ++i) token += letters[random() % letters.size()];
    return token;
}

struct outcome {
    double seconds = 0;
    responses seen;
    cenote::stats pool;
    std::size_t lost = 0;     // requests without a response
    std::int64_t stored = 0;  // orders in the database
    bool interrupted = false;

    bool consistent() const {
        auto least = static_cast<std::int64_t>(seen.ordered);
        return stored >= least && stored - least <= static_cast<std::int64_t>(seen.unknown);
    }
    bool fine() const { return consistent() && lost == 0 && seen.failures == 0; }
};

/// The demo drops its tables at the end, so it must not use existing ones.
void refuse_existing_tables(const std::string& url) {
    cenote::database db = cenote::database::direct(url);
    for (const char* table : {"orders", "order_line"}) {
        bool exists = true;
        try {
            db.query(std::string("SELECT 1 FROM ") + table + " WHERE 1 = 0");
        } catch (const cenote::statement_error&) {
            exists = false;
        }
        if (exists)
            throw command::failure(std::string("there is a table '") + table +
                                       "' in this database already",
                                   "The demo creates and drops its own tables: use another "
                                   "database.");
    }
}

class demonstration {
public:
    demonstration(const settings& how, const std::string& url)
        : how_(how),
          token_(random_token()),
          board_({.port = how.dashboard_port, .control_token = cenote::secret(token_)}),
          service_({.database = url, .max = how.connections, .observers = {board_.observer()}}),
          clients_(service_.port(), how.clients, how.think) {
        for (const cenote::pool_control& each : service_.database().controls())
            shown_.push_back(board_.watch(each));
        shown_.push_back(board_.watch(clients_.pool()));
    }

    outcome run(const terminal::interruption& stop) {
        if (!how_.look.json) print_introduction();
        wait_for_end(stop);
        outcome all;
        all.seconds = command::in_seconds(steady_clock::now() - begun_);
        all.interrupted = stop.happened();
        clients_.stop();
        all.seen = clients_.so_far();
        all.stored = count_orders();
        all.pool = service_.database().stats();
        shown_.clear();
        all.lost = service_.stop(5s);
        for (const char* table : {"order_line", "orders"})
            service_.database().execute(std::string("DROP TABLE ") + table);
        return all;
    }

private:
    std::int64_t count_orders() {
        return service_.database()
            .query(cenote::idempotent, "SELECT count(*) FROM orders")
            .scalar<std::int64_t>();
    }

    void print_introduction() const {
        terminal::palette paint(how_.look.colors);
        std::printf("An orders service on http://127.0.0.1:%d, %zu clients, %zu connections.\n",
                    service_.port(), how_.clients, how_.connections);
        std::printf("Dashboard: %s\n", paint(terminal::tint::bold, board_.url()).c_str());
        std::printf("Control token (to pause, resize or retire): %s\n", token_.c_str());
        std::printf("%s\n\n", how_.stay ? "Press Ctrl-C to end."
                                        : ("Ends after " + command::in_words(how_.duration) +
                                           "; use --stay to keep it running.")
                                              .c_str());
        std::fflush(stdout);
    }

    void wait_for_end(const terminal::interruption& stop) {
        bool live = !how_.plain && terminal::can_overwrite();
        auto every = live ? 250ms : 1000ms;
        std::uint64_t before = 0;
        auto end = begun_ + how_.duration;
        while (!stop.happened() && (how_.stay || steady_clock::now() < end)) {
            auto next = steady_clock::now() + every;
            if (!how_.stay && end < next) next = end;
            if (!stop.sleep_for(next - steady_clock::now())) break;
            if (!how_.look.json) print_line(live, every, before);
            if (std::ferror(stdout) != 0) break;
        }
        if (live && !how_.look.json) std::printf("\n");
    }

    void print_line(bool live, steady_clock::duration every, std::uint64_t& before) {
        cenote::stats now = service_.database().stats();
        responses seen = clients_.so_far();
        double rate = static_cast<double>(seen.requests - before) / command::in_seconds(every);
        before = seen.requests;
        char text[160];
        std::snprintf(text, sizeof text,
                      "%5.1f s  leased %2" PRIu64 "  idle %2" PRIu64 "  waiting %3" PRIu64
                      "  %6.0f requests/s  p99 ",
                      command::in_seconds(steady_clock::now() - begun_), now.leased, now.idle,
                      now.waiting, rate);
        std::string line = text + command::in_words(seen.times.quantile(0.99));
        // A line that the terminal wraps cannot be overwritten.
        if (live) std::printf("\r%s\033[K", terminal::cut(line, terminal::width() - 1).c_str());
        else std::printf("%s\n", line.c_str());
        std::fflush(stdout);
    }

    const settings& how_;
    std::string token_;
    cenote::dashboard board_;
    orders_service::running service_;
    steady_clock::time_point begun_ = steady_clock::now();
    clients clients_;
    std::vector<cenote::dashboard::entry> shown_;  // last: destroyed before the pools
};

void print(const outcome& all, const settings& how) {
    terminal::palette paint(how.look.colors);
    terminal::table rows({{.title = ""}, {.title = ""}});
    auto both = [&](const cenote::histogram& times) {
        return command::in_words(times.quantile(0.5)) + ", " +
               command::in_words(times.quantile(0.99));
    };
    auto rate = static_cast<std::uint64_t>(static_cast<double>(all.seen.requests) / all.seconds);
    rows.add({"requests", std::to_string(all.seen.requests)});
    rows.add({"requests per second", std::to_string(rate)});
    rows.add({"request time: p50, p99", both(all.seen.times)});
    rows.add({"wait for a connection: p50, p99", both(all.pool.wait)});
    rows.add({"connections opened", std::to_string(all.pool.opened) + " (at most " +
                                        std::to_string(how.connections) + " at a time)"});
    rows.add({"refused with Retry-After", std::to_string(all.seen.refused)});
    rows.add({"orders confirmed", std::to_string(all.seen.ordered)});
    rows.add({"orders in the database", std::to_string(all.stored)});
    if (all.seen.unknown > 0)
        rows.add({"orders with unknown outcome",
                  std::to_string(all.seen.unknown) + " (lost connection to the database)"});
    std::string failures = "none";
    if (all.seen.failures > 0)
        failures = std::to_string(all.seen.failures) + ", first: " +
                   terminal::printable(command::without_prefix(all.seen.first_failure));
    rows.add({"failures", failures});
    rows.add({"requests lost at shutdown", std::to_string(all.lost)});
    std::printf("\n%s\n%s",
                paint(terminal::tint::bold,
                      all.fine() ? "All results are consistent." : "The results are inconsistent.")
                    .c_str(),
                rows.to_text(paint, "  ").c_str());
}

json::value json_of(const outcome& all, const settings& how) {
    return json::object{{"seconds", all.seconds},
                        {"clients", how.clients},
                        {"connections", how.connections},
                        {"requests", all.seen.requests},
                        {"refused", all.seen.refused},
                        {"failures", all.seen.failures},
                        {"first_failure", all.seen.first_failure},
                        {"p50_seconds", command::in_seconds(all.seen.times.quantile(0.5))},
                        {"p99_seconds", command::in_seconds(all.seen.times.quantile(0.99))},
                        {"wait_p99_seconds", command::in_seconds(all.pool.wait.quantile(0.99))},
                        {"opened", all.pool.opened},
                        {"ordered", all.seen.ordered},
                        {"in_database", all.stored},
                        {"unknown", all.seen.unknown},
                        {"lost", all.lost},
                        {"interrupted", all.interrupted}};
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    CLI::App* options = app.add_subcommand(
        "demo", "Runs an orders service under load, with a dashboard of its pools.");
    options->add_option("URL", into.url,
                        "Database: postgresql://…, mariadb://… or sqlite:/path; creates the tables "
                        "orders and order_line and drops them at the end, refuses existing ones. "
                        "Default: a temporary SQLite file");
    command::add_duration(*options, "--for", into.duration, "Duration of the demo")
        ->option_text("TIME=20s");
    options->add_flag("--stay", into.stay, "Run until Ctrl-C");
    options->add_option("--clients", into.clients, "Number of clients")
        ->capture_default_str()
        ->check(command::from_to(1, 500));
    options
        ->add_option("--connections", into.connections,
                     "The max of the pool: how many connections to the database are open at most")
        ->capture_default_str()
        ->check(command::from_to(1, 1000));
    command::add_duration(*options, "--think", into.think, "Pause of a client between two requests")
        ->option_text("TIME=10ms");
    options
        ->add_option("--dashboard-port", into.dashboard_port,
                     "Port of the dashboard; 0: any free port")
        ->capture_default_str()
        ->check(command::from_to(0, 65535));
    options->add_flag("--plain", into.plain, "Print a line per second instead of updating one");
    command::add_password(*options, into.password);
    command::add_look(*options, into.look);
    command::add_footer(
        *options,
        "Examples:\n"
        "  cenote demo\n"
        "  cenote demo postgresql://app@localhost/test --for 1min\n"
        "  cenote demo --stay --clients 200 --connections 4\n",
        {{command::fine, "the answers agree with the contents of the database"},
         {command::failed, "they do not agree, a request failed, or the demo could not run"},
         {command::wrong_usage, "invalid arguments; nothing was done"},
         {command::interrupted, "interrupted; the results so far agree"},
         {command::output_closed, "the program that reads the output has ended"}});
    return options;
}

int run(const settings& how) {
    if (how.duration < 100ms || how.duration > 24h)
        throw command::wrong_arguments("--for must be between 100ms and 24h");
    if (how.think < 0ns || how.think > 1s)
        throw command::wrong_arguments("--think must be at most 1s");
    terminal::interruption stop;  // before any other thread
    std::optional<command::temporary_folder> folder;
    std::string url = command::complete_url(how.url, how.password);
    if (url.empty()) {
        folder.emplace();
        url = "sqlite:" + (folder->path() / "orders.db").string() + "?synchronous=normal";
    }
    refuse_existing_tables(url);
    outcome all = demonstration(how, url).run(stop);
    if (how.look.json) command::print_json(json_of(all, how));
    else print(all, how);
    if (!all.fine()) return command::failed;
    return all.interrupted ? command::interrupted : command::fine;
}

}  // namespace demo

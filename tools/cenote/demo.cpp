// The demo: the orders service, its clients, a page, a line that shows what happens, and a summary.
#include "demo.hpp"

#include <array>
#include <boost/json.hpp>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <random>
#include <unistd.h>
#include <vector>

#include <CLI/CLI.hpp>

#include "demo_clients.hpp"
#include "examples/orders_service/running.hpp"
#include "temporary_folder.hpp"
#include "terminal.hpp"
#include <cenote/dashboard.hpp>

namespace demo {

namespace json = boost::json;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

double seconds_of(std::chrono::nanoseconds time) {
    return std::chrono::duration<double>(time).count();
}
double milliseconds(std::chrono::nanoseconds time) { return seconds_of(time) * 1e3; }

/// For whoever may pause the pools of the demo: nobody who has not read it from the screen.
std::string random_token() {
    constexpr std::string_view letters = "abcdefghjkmnpqrstuvwxyz23456789";
    std::random_device random;
    std::string token;
    for (int i = 0; i < 24; ++i) token += letters[random() % letters.size()];
    return token;
}

/// What there was at the end.
struct outcome {
    double seconds = 0;
    told heard;
    cenote::stats pool;
    std::size_t lost = 0;       // requests that were not answered
    std::int64_t in_books = 0;  // orders that the database has
    bool interrupted = false;

    bool adds_up() const {
        auto least = static_cast<std::int64_t>(heard.ordered);
        return in_books >= least && in_books - least <= static_cast<std::int64_t>(heard.unknown);
    }
    bool fine() const { return adds_up() && lost == 0 && heard.failures == 0; }
};

/// The demo has tables of its own, and takes nobody's for them.
void refuse_tables_of_others(const std::string& url) {
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
                                   "The demo makes its own, and drops them at its end: give it "
                                   "another database.");
    }
}

class show {
public:
    show(const settings& how, const std::string& url)
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
        if (!how_.look.json) introduce();
        watch(stop);
        outcome all;
        all.seconds = seconds_of(steady_clock::now() - begun_);
        all.interrupted = stop.happened();
        clients_.stop();
        all.heard = clients_.so_far();
        all.in_books = count_orders();
        all.pool = service_.database().stats();
        // Nobody looks at pools that are about to go.
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

    void introduce() const {
        terminal::palette paint(how_.look.colors);
        std::printf("An orders service on http://127.0.0.1:%d, %zu clients, %zu connections.\n",
                    service_.port(), how_.clients, how_.connections);
        std::printf("Watch it: %s\n", paint(terminal::tint::bold, board_.url()).c_str());
        std::printf("To pause, resize or retire there, use the token %s\n", token_.c_str());
        std::printf("%s\n\n", how_.stay ? "Ctrl-C ends it."
                                        : ("It ends after " + command::in_words(how_.lasts) +
                                           "; with --stay it stays.")
                                              .c_str());
        std::fflush(stdout);
    }

    void watch(const terminal::interruption& stop) {
        bool live = !how_.plain && ::isatty(STDOUT_FILENO) == 1;
        auto every = live ? 250ms : 1000ms;
        std::uint64_t before = 0;
        auto end = begun_ + how_.lasts;
        while (!stop.happened() && (how_.stay || steady_clock::now() < end)) {
            auto next = steady_clock::now() + every;
            if (!how_.stay && end < next) next = end;
            if (!stop.sleep_for(next - steady_clock::now())) break;
            if (!how_.look.json) line(live, every, before);
        }
        if (live && !how_.look.json) std::printf("\n");
    }

    void line(bool live, steady_clock::duration every, std::uint64_t& before) {
        cenote::stats now = service_.database().stats();
        told heard = clients_.so_far();
        double rate = static_cast<double>(heard.requests - before) / seconds_of(every);
        before = heard.requests;
        std::printf("%s%5.1f s  leased %2" PRIu64 "  idle %2" PRIu64 "  waiting %3" PRIu64
                    "  %6.0f requests/s  p99 %6.1f ms%s",
                    live ? "\r" : "", seconds_of(steady_clock::now() - begun_), now.leased,
                    now.idle, now.waiting, rate, milliseconds(heard.times.quantile(0.99)),
                    live ? "   " : "\n");
        std::fflush(stdout);
    }

    const settings& how_;
    std::string token_;
    cenote::dashboard board_;
    orders_service::running service_;
    steady_clock::time_point begun_ = steady_clock::now();
    clients clients_;
    std::vector<cenote::dashboard::entry> shown_;  // last: it goes before the pools
};

void print(const outcome& all, const settings& how) {
    terminal::palette paint(how.look.colors);
    terminal::table rows({{.title = ""}, {.title = ""}});
    auto number = [](double value, const char* unit) {
        std::array<char, 64> text{};
        std::snprintf(text.data(), text.size(), "%.1f%s", value, unit);
        return std::string(text.data());
    };
    auto both = [&](const cenote::histogram& times) {
        return number(milliseconds(times.quantile(0.5)), " ms, ") +
               number(milliseconds(times.quantile(0.99)), " ms");
    };
    rows.add({"requests", std::to_string(all.heard.requests)});
    rows.add(
        {"requests per second", number(static_cast<double>(all.heard.requests) / all.seconds, "")});
    rows.add({"time of one: p50, p99", both(all.heard.times)});
    rows.add({"wait for a connection: p50, p99", both(all.pool.wait)});
    rows.add({"connections opened", std::to_string(all.pool.opened) + " (at most " +
                                        std::to_string(how.connections) + " at a time)"});
    rows.add({"told to come again later", std::to_string(all.heard.refused)});
    rows.add({"orders that were confirmed",
              std::to_string(all.heard.ordered) +
                  (std::cmp_equal(all.in_books, all.heard.ordered)
                       ? ", and as many are in the database"
                       : ", and " + std::to_string(all.in_books) + " are in the database")});
    if (all.heard.unknown > 0)
        rows.add({"orders that may have been stored",
                  std::to_string(all.heard.unknown) + ": the database was lost meanwhile"});
    std::string failures = "none";
    if (all.heard.failures > 0)
        failures = std::to_string(all.heard.failures) +
                   ", the first: " + terminal::printable(all.heard.first_failure);
    rows.add({"failures", failures});
    rows.add({"requests lost at the end", std::to_string(all.lost)});
    std::printf(
        "\n%s\n%s",
        paint(terminal::tint::bold, all.fine() ? "Everything adds up." : "Something is wrong.")
            .c_str(),
        rows.to_text(paint, "  ").c_str());
}

json::value json_of(const outcome& all, const settings& how) {
    return json::object{{"seconds", all.seconds},
                        {"clients", how.clients},
                        {"connections", how.connections},
                        {"requests", all.heard.requests},
                        {"refused", all.heard.refused},
                        {"failures", all.heard.failures},
                        {"first_failure", all.heard.first_failure},
                        {"p50_seconds", seconds_of(all.heard.times.quantile(0.5))},
                        {"p99_seconds", seconds_of(all.heard.times.quantile(0.99))},
                        {"wait_p99_seconds", seconds_of(all.pool.wait.quantile(0.99))},
                        {"opened", all.pool.opened},
                        {"ordered", all.heard.ordered},
                        {"in_database", all.in_books},
                        {"unknown", all.heard.unknown},
                        {"lost", all.lost},
                        {"interrupted", all.interrupted}};
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    CLI::App* word = app.add_subcommand(
        "demo", "An orders service under load, with a page that shows its pools.");
    word->add_option("URL", into.url,
                     "Database to use: postgresql://..., mariadb://... or sqlite:/path; without "
                     "it, an SQLite file that goes when the demo ends. Makes the tables orders and "
                     "order_line there, and drops them at its end; refuses if there are such.");
    command::add_duration(*word, "--for", into.lasts, "How long");
    word->add_flag("--stay", into.stay, "Until it is interrupted");
    word->add_option("--clients", into.clients, "How many there are")
        ->capture_default_str()
        ->check(CLI::Range(1, 500));
    word->add_option("--connections", into.connections, "To the database, at most")
        ->capture_default_str()
        ->check(CLI::Range(1, 1000));
    command::add_duration(*word, "--think", into.think, "What a client waits between two requests");
    word->add_option("--dashboard-port", into.dashboard_port,
                     "Where the page is; 0: anywhere, which is printed")
        ->capture_default_str();
    word->add_flag("--plain", into.plain, "A line per second instead of one that changes");
    command::add_password(*word, into.password);
    command::add_look(*word, into.look);
    return word;
}

int run(const settings& how) {
    if (how.lasts < 100ms || how.lasts > 24h)
        throw command::wrong_arguments("--for is between 100ms and 24h");
    if (how.think < 0ns || how.think > 1s)
        throw command::wrong_arguments("--think is at most a second");
    terminal::interruption stop;  // before there are other threads
    std::optional<command::temporary_folder> folder;
    std::string url = command::complete_url(how.url, how.password);
    if (url.empty()) {
        folder.emplace();
        url = "sqlite:" + (folder->path() / "orders.db").string() + "?synchronous=normal";
    }
    refuse_tables_of_others(url);
    outcome all = show(how, url).run(stop);
    if (how.look.json) command::print_json(json_of(all, how));
    else print(all, how);
    if (!all.fine()) return command::failed;
    return all.interrupted ? command::interrupted : command::fine;
}

}  // namespace demo

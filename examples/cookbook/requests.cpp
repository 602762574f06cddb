// Recipes: requests, jobs and transactions.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ostream>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "cookbook.hpp"
#include <cenote/database.hpp>
#include <cenote/pool.hpp>
#include <cenote/sqlite.hpp>

using namespace std::chrono_literals;
using cookbook::expect;

namespace {

// Timeouts end to end.

using connections = cenote::pool<cenote::sqlite::connection>;
using clock_type = std::chrono::steady_clock;

std::int64_t count_orders(connections& pool, clock_type::time_point deadline) {
    auto lease = pool.acquire({.deadline = deadline});  // waiting, opening, probing

    auto left = deadline - clock_type::now();
    if (left <= 0ms) throw std::runtime_error("too late");
    lease->set_timeout(left);  // each statement of this lease
    return lease->execute("SELECT count(*) FROM orders").scalar<std::int64_t>();
}

void timeouts() {
    connections pool{cenote::sqlite::connector{"sqlite:cookbook_times?mode=memory"}, {.max = 1}};
    pool.acquire()->execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    expect(count_orders(pool, clock_type::now() + 1min) == 0, "in time");

    auto busy = pool.acquire();
    try {
        count_orders(pool, clock_type::now() + 10ms);
        expect(false, "too late");
    } catch (const cenote::timed_out_error&) {
        expect(true, "no connection before the deadline");
    }
}

// Cancel with a stop token.

struct session {};

void cancel() {
    cenote::pool<session> pool{[] { return session{}; }, {.max = 1}};
    auto busy = pool.acquire();
    std::error_code why;

    std::jthread worker([&pool, &why](const std::stop_token& stop) {
        while (!stop.stop_requested()) {
            auto lease = pool.acquire({.timeout = 1min, .stop = stop}, why);
            if (!lease) return;  // canceled, timed out, or the pool was closed
            // … work with *lease
        }
    });
    worker.request_stop();  // ends the wait at once

    worker.join();
    expect(!why || why == cenote::errc::canceled, "the wait was canceled");
}

// Batch jobs beside requests.

void batch_jobs(const std::string& url) {
    cenote::database db{url, {.pool = {.name = "orders", .max = 8, .head_start = 2s}}};
    cenote::database jobs{url, {.pool = {.name = "jobs", .max = 2}}};  // never more than two

    db.execute("SELECT 1");  // so that no open takes of the time below
    auto requests = db.with({.timeout = 500ms, .priority = cenote::priority::high});
    auto mails = db.with({.timeout = 30s, .priority = cenote::priority::low, .task = "mails"});
    auto admin = db.with({.timeout = 2s, .priority = cenote::priority::reserved});

    auto one = requests.query("SELECT 1").scalar<std::int64_t>();
    mails.execute("SELECT 1");  // waits behind the requests
    admin.execute("SELECT 1");  // goes first, also if the line is full
    jobs.execute("SELECT 1");   // has connections of its own
    expect(one == 1, "all of them run");
}

// Many statements in one transaction, with retries.

struct line {
    std::string item;
    std::int64_t cents;
};

void place_order(cenote::database& db, std::string_view key, const std::vector<line>& lines) {
    db.transaction(
        [&](cenote::transaction& t) {  // may run more than once: only statements in here
            std::int64_t total = 0;
            for (const line& l : lines) {
                t.execute("INSERT INTO line VALUES (?, ?, ?)", key, l.item, l.cents);
                total += l.cents;
            }
            t.execute("INSERT INTO orders VALUES (?, ?)", key, total);  // key is unique
        },
        {.isolation = cenote::isolation::serializable, .retries = 5});
}

bool is_placed(cenote::database& db, std::string_view key) {
    return db.query(cenote::idempotent, "SELECT cents FROM orders WHERE key = ?", key).size() == 1;
}

void place_once(cenote::database& db, std::string_view key, const std::vector<line>& lines) {
    try {
        place_order(db, key, lines);
    } catch (const cenote::transaction_lost& e) {
        if (e.maybe_committed() && is_placed(db, key)) return;  // the commit did arrive
        throw;
    }
}

// A large result, row by row.

std::size_t export_orders(cenote::database& db, std::ostream& to) {
    auto reports = db.with({.timeout = 10s, .task = "export", .leak_after = 1h});
    auto report = reports.scope({.read_only = true});  // a replica's connection, if there is one

    std::size_t count = 0;
    auto rows = report.stream("SELECT key, cents FROM orders ORDER BY key");
    while (auto row = rows.next()) {
        auto [key, cents] = row->as<std::string, std::int64_t>();
        to << key << ';' << cents << '\n';
        ++count;
    }
    return count;
}

void transactions_and_streams() {
    cenote::database db{"sqlite:cookbook_orders?mode=memory"};
    db.execute("CREATE TABLE orders (key TEXT PRIMARY KEY, cents INTEGER)");
    db.execute("CREATE TABLE line (key TEXT, item TEXT, cents INTEGER)");
    place_once(db, "a7", {{"tea", 350}, {"cup", 900}});
    try {
        place_once(db, "a7", {{"tea", 350}});
        expect(false, "an order is placed once");
    } catch (const cenote::statement_error&) {
        expect(db.query("SELECT count(*) FROM line").scalar<std::int64_t>() == 2,
               "a failed order leaves no lines behind");
    }
    place_once(db, "b1", {{"tea", 350}});
    std::ostringstream file;
    expect(export_orders(db, file) == 2, "all orders are exported");
    expect(file.str() == "a7;1250\nb1;350\n", "with their sums");
}

// Tenants.

cenote::database_view of_tenant(const cenote::database& db, std::string_view tenant) {
    return db.with({.settings = {{"app.tenant", tenant}}, .timeout = 1s, .task = "request"});
}

void tenants(cenote::database& db) {
    for (const char* text : {"CREATE TABLE note (tenant text, body text)",
                             "ALTER TABLE note ENABLE ROW LEVEL SECURITY",
                             "ALTER TABLE note FORCE ROW LEVEL SECURITY",  // for the owner, too
                             "CREATE POLICY own_notes ON note "
                             "USING (tenant = current_setting('app.tenant', true))"})
        db.execute(text);

    for (const char* tenant : {"ann", "bob"})
        of_tenant(db, tenant).execute("INSERT INTO note VALUES (?, ?)", tenant, "a note");
    auto seen = of_tenant(db, "ann").query("SELECT count(*) FROM note");
    expect(seen.scalar<std::int64_t>() == 1, "a tenant sees its own rows");
    expect(db.query("SELECT count(*) FROM note").scalar<std::int64_t>() == 0,
           "without a tenant there are no rows, also on the same connection");
    db.execute("DROP TABLE note");
}

}  // namespace

void cookbook::requests() {
    timeouts();
    cancel();
    batch_jobs("sqlite:cookbook_batch?mode=memory");
    transactions_and_streams();
}

void cookbook::on_postgres(const std::string& url) {
    cenote::database db{url, {.pool = {.max = 2}}};
    tenants(db);
    cookbook::operating_on_postgres(url);
}

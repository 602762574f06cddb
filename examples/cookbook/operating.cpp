// Recipes: credentials, failover, shutdown, probes, metrics, leaks, sizes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cookbook.hpp"
#include <cenote/breaker.hpp>
#include <cenote/credentials.hpp>
#include <cenote/database.hpp>
#include <cenote/metrics.hpp>
#include <cenote/pool.hpp>
#include <cenote/postgres.hpp>
#include <cenote/service.hpp>
#include <cenote/testing.hpp>

using namespace std::chrono_literals;
using cookbook::expect;

namespace postgres = cenote::postgres;

namespace {

/// A simulated server. A switch to another one ends all sessions.
struct server {
    std::atomic<int> life{1};
};

struct session {
    int life;
};

struct connector {
    std::shared_ptr<server> there;

    session open() { return {there->life}; }
    bool probe(session& s) { return s.life == there->life; }
    void close(session&) {}
};

// Credentials that rotate.

class current_login {
public:
    explicit current_login(cenote::credentials first) : now_(std::move(first)) {}

    cenote::credentials get() const {  // the pool opens on several threads
        std::lock_guard lock(mutex_);
        return now_;
    }
    void put(cenote::credentials next) {
        std::lock_guard lock(mutex_);
        now_ = std::move(next);
    }

private:
    mutable std::mutex mutex_;
    cenote::credentials now_;
};

postgres::options by(std::shared_ptr<const current_login> login, postgres::options o) {
    o.password = {};
    o.credentials = [login = std::move(login)] { return login->get(); };  // for each open
    return o;
}

void rotate(const postgres::options& o) {
    const cenote::credentials right(o.user, o.password);
    auto login = std::make_shared<current_login>(
        cenote::credentials(o.user, cenote::secret("of yesterday")));
    cenote::database db{by(login, o), {.pool = {.max = 2, .acquire_timeout = 1min}}};
    std::thread caller(
        [&] { expect(db.execute("SELECT 1").scalar<int>() == 1, "a caller waits"); });
    while (db.stats().open_failed == 0) std::this_thread::yield();
    login->put(right);  // no pool and no connection needs to be told
    caller.join();
}

// A token that is valid for minutes.

postgres::options by_token(postgres::options o, std::function<cenote::secret()> token) {
    o.password = {};
    o.credentials = [token = std::move(token)] {
        return cenote::credentials(token());  // the user of the options
    };
    return o;
}

void tokens(const postgres::options& login, const std::function<cenote::secret()>& read_token) {
    cenote::pool<postgres::connection> pool{postgres::connector{by_token(login, read_token)},
                                            {.max = 2}};

    expect(pool.acquire()->execute("SELECT 1").scalar<int>() == 1, "a login with a token");
    pool.retire_all();
    expect(pool.acquire()->execute("SELECT 1").scalar<int>() == 1, "and another one");
}

// Another URL for a database.

class current_database {
public:
    explicit current_database(const std::string& url) : now_(open(url)) {}

    /// Each request keeps what it got until its end.
    std::shared_ptr<cenote::database> get() const {
        std::lock_guard lock(mutex_);
        return now_;
    }
    void replace(const std::string& url) {
        auto next = open(url);  // throws if the server refuses it
        std::lock_guard lock(mutex_);
        now_.swap(next);
    }

private:
    static std::shared_ptr<cenote::database> open(const std::string& url) {
        return std::make_shared<cenote::database>(
            url, cenote::database_options{
                     .pool = {.max = 8, .min_size = 1, .warm_up = cenote::warm_up::wait}});
    }

    mutable std::mutex mutex_;
    std::shared_ptr<cenote::database> now_;
};

void replace_database() {
    current_database current("sqlite:cookbook_old?mode=memory");
    auto request = current.get();
    current.replace("sqlite:cookbook_new?mode=memory");
    expect(request != current.get(), "later requests use the new one");
    request->execute("SELECT 1");
}

// A failover drill.

void fail_over(cenote::pool<session>& pool, const std::function<void()>& switch_servers) {
    pool.pause();       // callers wait, with their place in line and their deadline
    switch_servers();   // promote the standby, move the address
    pool.retire_all();  // or pool.replace_connector(…) for another address or password
    pool.resume();
}

void lose_server(cenote::pool<session>& pool, const std::function<bool()>& is_back) {
    pool.deactivate();  // refuses all callers at once, with `unavailable`
    while (!is_back()) std::this_thread::sleep_for(1s);
    pool.suspect_all();  // each old session is probed before its next lease
    pool.activate();
}

void drill() {
    auto there = std::make_shared<server>();
    cenote::pool<session> pool{connector{there}, {.max = 2, .acquire_timeout = 1min}};
    auto before = pool.acquire();
    std::thread caller;
    fail_over(pool, [&] {
        caller = std::thread(
            [&] { expect(pool.acquire()->life == 2, "a caller waits, and gets a new session"); });
        while (pool.stats().waiting == 0) std::this_thread::yield();
        ++there->life;
    });
    caller.join();
    before.give_back();
    expect(pool.close(1min) == 0, "all leases are back");
    expect(pool.stats().retired(cenote::retire_reason::generation) == 1,
           "the old session was replaced");

    cenote::pool<session> other{connector{there}, {.max = 2}};
    other.acquire().give_back();
    ++there->life;
    lose_server(other, [] { return true; });
    expect(other.acquire()->life == 3, "a suspect session is not leased unprobed");
}

// A graceful shutdown.

int shut_down(cenote::service& about, const std::function<void()>& stop_listening,
              cenote::pool<session>& pool) {
    about.announce_end();              // /ready answers 503
    std::this_thread::sleep_for(0ms);  // in production: until the load balancer has noticed
    stop_listening();

    std::size_t left = pool.close(10s);  // refuses waiters, waits for leases
    for (const cenote::lease_info& l : pool.leases())
        std::printf("%s:%u still has a lease\n", l.site.file_name(),
                    static_cast<unsigned>(l.site.line()));
    return left == 0 ? 0 : 1;
}

// Probes of Kubernetes.

cenote::answer answer_probe(const cenote::service& about, std::string_view path) {
    if (path == "/alive") return cenote::answer(200, "alive\n");         // asks no pool
    if (auto report = about.answer_to(path)) return *std::move(report);  // /ready, /health, …
    return cenote::answer(404);
}

void probes_and_shutdown() {
    cenote::pool<session> pool{connector{std::make_shared<server>()},
                               {.min_size = 1, .warm_up = cenote::warm_up::none}};
    cenote::service about;
    auto watched = about.watch("orders", pool, {.minimum = 1});
    expect(answer_probe(about, "/ready").status() == 503, "not ready before the minimum is open");
    expect(answer_probe(about, "/alive").status() == 200, "but alive");
    expect(pool.wait_ready(1min), "the minimum opens");
    expect(answer_probe(about, "/ready").status() == 200, "then it is ready");
    expect(shut_down(about, [] {}, pool) == 0, "no lease is left");
    expect(answer_probe(about, "/ready").status() == 503, "and it is no longer ready");
}

// Metrics.

std::string metrics_of(cenote::pool<session>& orders, const cenote::database& db) {
    cenote::metrics all;
    auto first = all.add(orders.control());                     // under the pool's name
    auto second = all.add("db", [&db] { return db.stats(); });  // all pools of a database

    return all.prometheus();  // the body of GET /metrics, of the type metrics::content_type
}

void metrics() {
    cenote::pool<session> orders{connector{std::make_shared<server>()}, {.name = "orders"}};
    orders.acquire().give_back();
    cenote::database db{"sqlite:cookbook_metrics?mode=memory"};
    std::string text = metrics_of(orders, db);
    for (const char* name :
         {"cenote_pool_waiting{pool=\"orders\"} 0",
          "cenote_pool_refused_total{pool=\"db\",reason=\"timed_out\"} 0",
          "cenote_pool_wait_seconds_bucket{pool=\"orders\",", "cenote_pool_open_failed_total",
          "cenote_pool_leaks_total", "cenote_pool_abandoned_total"})
        expect(text.find(name) != std::string::npos, name);
}

// Leaks.

struct leak_log : cenote::observer {
    bool wants(cenote::event_kind kind) const override {
        return kind == cenote::event_kind::leak_suspected;
    }
    void on_event(const cenote::event& e) override {
        std::printf(
            "%s:%u (%s) has held resource %llu for %lld s\n", e.site.file_name(),
            static_cast<unsigned>(e.site.line()), e.task != nullptr ? e.task : "no task",
            static_cast<unsigned long long>(e.resource),
            static_cast<long long>(std::chrono::floor<std::chrono::seconds>(e.took).count()));
        ++reports;
    }
    std::atomic<int> reports{0};
};

void leaks() {
    auto clock = std::make_shared<cenote::manual_clock>();
    auto log = std::make_shared<leak_log>();

    cenote::options settings{.name = "orders", .leak_after = 5s, .observers = {log}};

    settings.clock = clock;
    cenote::pool<session> pool{connector{std::make_shared<server>()}, settings};
    auto quick = pool.acquire({.task = "checkout"});
    auto slow = pool.acquire({.task = "nightly report", .leak_after = 1h});  // long on purpose

    clock->advance(6s);
    expect(log->reports == 1, "the quick one is reported");
    expect(pool.leases().size() == 2, "both are listed");
    clock->advance(5s);
    expect(log->reports == 2, "and again when the time has doubled");
}

// Size.

std::size_t share_of(std::size_t limit, std::size_t margin, std::size_t processes) {
    if (limit <= margin) return 1;
    return std::max<std::size_t>(1, (limit - margin) / std::max<std::size_t>(1, processes));
}

void sizes() {
    cenote::pool<session> pool{connector{std::make_shared<server>()}, {.max = 10}};

    pool.resize(share_of(100, 10, 12));  // 7: the process count has changed
    expect(pool.settings().max == 7, "each of twelve processes has its share");
}

}  // namespace

void cookbook::operating() {
    replace_database();
    drill();
    probes_and_shutdown();
    metrics();
    leaks();
    sizes();
}

void cookbook::operating_on_postgres(const std::string& url) {
    auto login = postgres::options::from_url(url);
    rotate(login);
    tokens(login, [&] { return login.password; });
}

void cookbook::through_pgbouncer(const std::string& url) {
    cenote::database db{url,
                        {.pool = {.name = "bouncer",
                                  .max = 32,              // clients are cheap there …
                                  .idle_timeout = 1min},  // … below client_idle_timeout
                         .statement_cache = 0}};

    auto seen = db.transaction([](cenote::transaction& t) {
        t.execute("SET LOCAL lock_timeout = '1s'");  // SET LOCAL, not SET: ends with the commit
        return t.query("SHOW lock_timeout").scalar<std::string>();
    });

    expect(seen == "1s", "a setting lasts for its transaction");
    expect(db.query("SHOW lock_timeout").scalar<std::string>() == "0", "and no longer");
}

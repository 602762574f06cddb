// The samples in the comments of the headers for servers and services; see header_samples.cpp.
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cenote/asio_request_scope.hpp"
#include "cenote/dashboard.hpp"
#include "cenote/database.hpp"
#include "cenote/http_server.hpp"
#include "cenote/metrics.hpp"
#include "cenote/pool.hpp"
#include "cenote/postgres.hpp"
#include "cenote/redis.hpp"
#include "cenote/redis_subscribe.hpp"
#include "cenote/request_scope.hpp"
#include "cenote/service.hpp"
#include "cenote/spdlog.hpp"
#include "cenote/sql.hpp"
#include "cenote/sql_connection.hpp"
#include "cenote/url.hpp"

using namespace std::chrono_literals;

namespace samples {

struct session {
    std::string fetch(const std::string& key) { return key; }
};
session connect();
bool in_cache(const std::string& key);
std::string cached(const std::string& key);
void greet(std::int64_t id, const std::string& name);
void export_customer(std::int64_t id);
std::string text_for(std::size_t values);

void reload(const std::string& what);
void reload_all();
void show(const std::string& channel, const std::string& payload);

// clang-format off

std::string instance_name();

void set_up_database(std::string_view url) {
    cenote::database db(url, {.on_open = [](cenote::sql::connection& c) {
        c.execute("SELECT set_config('app.instance', $1, false)", instance_name());
    }});
}
void listening(cenote::database& db) {
    cenote::notifications orders = db.listen("orders");
    while (auto n = orders.next()) {
        if (n->missed) reload_all();
        else reload(n->payload);
    }
}
void listening_briefly(cenote::database& db) {
    cenote::notifications orders = db.listen("orders");
    while (auto n = orders.next()) reload(n->payload);
}
void channels(cenote::database& db) {
    db.listen("orders");
    db.listen({"orders", "prices"});
}
boost::asio::awaitable<void> listening_awaited(cenote::notifications& orders) {
    while (auto n = co_await orders.async_next()) reload(n->payload);
}
void subscribing(cenote::pool<cenote::redis::connection>& pool) {
    cenote::notifications prices = cenote::redis::subscribe(pool, {"eur", "usd"});
    while (auto n = prices.next()) show(n->channel, n->payload);
}

void dashboard() {
    cenote::dashboard board;
    cenote::pool<session> pool{connect, {.name = "orders", .observers = {board.observer()}}};
    auto shown = board.watch(pool.control());
    std::puts(board.url().c_str());
}

void metrics(cenote::pool<session>& pool) {
    cenote::metrics all;
    auto orders = all.add(pool.control());
    std::string body = all.prometheus();  // for GET /metrics, with metrics::content_type
}

void spdlog() {
    auto log = std::make_shared<cenote::spdlog_observer>();
    cenote::pool<session> pool{connect, {.name = "orders", .observers = {log}}};
}

void statements(cenote::database& db, std::string city, std::string name, std::int64_t id) {
    db.execute("UPDATE customer SET city = ? WHERE id = ?", city, id);
    db.execute(cenote::idempotent, "DELETE FROM visit WHERE id = ?", id);
    for (auto [id, name] : db.query("SELECT id, name FROM customer WHERE city = ?", city)
                               .as<std::int64_t, std::string>())
        greet(id, name);
    db.with({.timeout = 100ms, .task = "checkout"}).execute("…");
    auto tenant = db.with({.role = "tenant_a", .settings = {{"app.region", "eu"}}});
    auto orders = tenant.query("SELECT id, total FROM orders");
    db.execute("INSERT INTO customer(id, name, born) VALUES (?, ?, ?)", 7, "Ada", nullptr);
}
void replicas(std::string_view primary, std::string_view first, std::string_view second) {
    cenote::database db{primary, cenote::replicas{first, second}};
}
void replicas_with_options(const cenote::postgres::options& primary) {
    cenote::postgres::options replica = primary;
    replica.hosts = {{.name = "replica.example.com", .port = 5432}};
    cenote::database db{primary, cenote::replicas{replica}};
}
void transaction(cenote::database& db, std::int64_t sum, std::int64_t from, std::int64_t to) {
    db.transaction([&](cenote::transaction& t) {
        t.execute("UPDATE account SET balance = balance - ? WHERE id = ?", sum, from);
        t.execute("UPDATE account SET balance = balance + ? WHERE id = ?", sum, to);
    });
}
void database(std::string name) {
    cenote::database db{"postgresql://app:secret@db.example.com/orders"};
    db.execute("INSERT INTO customer(name) VALUES (?)", name);
    auto count = db.query("SELECT count(*) FROM customer").scalar<std::int64_t>();
}

void rows(cenote::database& db, const cenote::sql::row& row) {
    auto born = row["born"].as<std::optional<std::string>>();
    std::map<std::int64_t, std::string> names;
    for (const cenote::sql::row& each : db.query("SELECT id, name FROM customer"))
        names[each.get<std::int64_t>("id")] = each.get<std::string>("name");
}
void row(const cenote::sql::row& r) {
    auto name = r.get<std::string>("name");
}
void whole_row(const cenote::sql::row& r) {
    auto [id, name] = r.as<std::int64_t, std::string>();
}
void result(cenote::database& db, std::string city) {
    cenote::sql::result found = db.query("SELECT id, name FROM customer WHERE city = ?", city);
    if (found.empty()) return;
    for (auto [id, name] : found.as<std::int64_t, std::string>()) greet(id, name);
}
void loops(cenote::database& db, cenote::sql::result found) {
    for (const cenote::sql::row& each : found)
        static_cast<void>(each);
    auto count = db.query("SELECT count(*) FROM customer").scalar<std::int64_t>();
    for (auto [id, name] : found.as<std::int64_t, std::string>())
        greet(id, name);
}
std::string not_found();
std::string at_most_one(cenote::database& db, std::int64_t id) {
    auto name = db.query("SELECT name FROM customer WHERE id = ?", id)
                    .at_most_one<std::string>();
    if (!name) return not_found();
    return *name;
}
void bind(cenote::sql::connection& connection, std::int64_t id, std::string name) {
    auto values = cenote::sql::bind(id, name);
    connection.execute_bound("INSERT INTO customer VALUES (?, ?)", values);
}

void prepared(cenote::sql::connection& c, std::vector<std::string> pages) {
    cenote::sql::statement insert = c.prepare("INSERT INTO visit(page) VALUES ($1)");
    for (const std::string& page : pages) c.execute(insert, page);
}
void cursor(cenote::sql::connection& c) {
    cenote::sql::cursor rows = c.stream("SELECT id, name FROM customer");
    while (auto row = rows.next()) export_customer(row->get<std::int64_t>("id"));
}
boost::asio::awaitable<void> awaited_cursor(cenote::sql::cursor rows) {
    while (auto row = co_await rows.async_next())
        export_customer(row->get<std::int64_t>("id"));
}
    std::int64_t count(cenote::sql::connection& c) {
        return c.execute("SELECT count(*) FROM orders").scalar<std::int64_t>();
    }
    boost::asio::awaitable<std::int64_t> async_count(cenote::sql::connection& c) {
        cenote::sql::result found = co_await c.async_execute("SELECT count(*) FROM orders");
        co_return found.scalar<std::int64_t>();
    }
void connection(cenote::sql::connection& c, std::string city, std::int64_t id, std::string day) {
    c.execute("UPDATE customer SET city = $1 WHERE id = $2", city, id);
    cenote::sql::cursor rows = c.stream("SELECT id FROM visit WHERE day = $1", day);
    c.set_timeout(std::chrono::minutes(10));
    c.execute("CREATE INDEX ON visit (day)");
}
void execute_many(cenote::sql::connection& c) {
    std::vector<std::tuple<int, std::string>> rows{{1, "Ada"}, {2, "Grace"}};
    c.execute_many("INSERT INTO customer (id, name) VALUES ($1, $2)", rows);
}

void database_many(cenote::database& db) {
    std::vector<std::tuple<int, std::string>> rows{{1, "Ada"}, {2, "Grace"}};
    db.execute_many("INSERT INTO customer (id, name) VALUES (?, ?)", rows);
}

void batch(cenote::database& db, std::int64_t sum, std::int64_t from, std::int64_t to) {
    cenote::sql::batch both;
    both.add("UPDATE account SET balance = balance - ? WHERE id = ?", sum, from);
    both.add("UPDATE account SET balance = balance + ? WHERE id = ?", sum, to);
    std::vector<cenote::sql::result> results = db.execute(both);
}

struct visit {
    std::string page;
    std::string day;
};
void copy_in(cenote::database& db, const std::vector<visit>& visits) {
    cenote::sql::copy_in rows = db.copy_in("COPY visit (page, day) FROM STDIN");
    for (const visit& v : visits) rows.write_row(v.page, v.day);
    std::uint64_t copied = rows.finish();
    static_cast<void>(copied);
}
void copy_out(cenote::database& db, std::ostream& file) {
    cenote::sql::copy_out rows = db.copy_out("COPY visit TO STDOUT (FORMAT csv)");
    while (auto bytes = rows.next()) file << *bytes;
}

void execute_bound(cenote::sql::connection& c, std::vector<std::int64_t> ids) {
    std::vector<cenote::sql::parameter> values(ids.begin(), ids.end());
    c.execute_bound(text_for(values.size()), values);
}

void pipeline(cenote::lease<cenote::redis::connection> lease) {
    cenote::redis::pipeline p;
    p.add("INCR", "visits").add("GET", "greeting");
    std::vector<cenote::redis::reply> both = lease->execute(p);
}
void parameters(const cenote::url& u) {
    cenote::url_parameters all(u);
    auto timeout = all.take_milliseconds("connect_timeout");
    auto name = all.take("client_name");
    all.refuse_others();
}

std::string request_scope(cenote::pool<session>& pool, std::string key) {
    return cenote::with_scope(pool, [&](cenote::request_scope<session>& s) {
        if (in_cache(key)) return cached(key);  // acquires nothing
        return s.get().fetch(key);              // the same session each time
    });
}
boost::asio::awaitable<void> async_request_scope(cenote::pool<session>& pool) {
    auto work = [](cenote::request_scope<session>&) -> boost::asio::awaitable<void> { co_return; };
    co_await cenote::async_with_scope(pool, work);
}

struct order {
    std::string status;
};
void answer_error(const order& order) {
    if (order.status != "open") throw cenote::answer_error(409, "the order is already paid");
}
cenote::answer answering(cenote::database& db,
                         cenote::answer (*create_order)(cenote::transaction&)) {
    return cenote::answering([&] { return db.transaction(create_order); });
}
void service(cenote::database& db, std::string_view path) {
    cenote::service about;
    auto watched = about.watch("orders", db, {.minimum = 2});
    auto answer = about.answer_to(path);  // for /health, /ready and /metrics
    about.announce_end();                 // the first step of a shutdown
}
boost::asio::awaitable<void> http_server(boost::asio::io_context& io,
                                         boost::asio::ip::address address,
                                         cenote::http_server::handler handle) {
    cenote::http_server::server front{io.get_executor(), {address, 8080}, handle};
    co_await front.drain(10s);
}

}  // namespace samples
namespace rows {

struct money {
    std::int64_t cents = 0;
    static money parse(std::string_view text);
};
enum class state { open, paid };
class account {
public:
    int id = 0;
    std::string owner;
};

}  // namespace rows
using rows::account;
using rows::money;
using rows::state;

template <>
struct cenote::sql::codec<money> {
    // Asked once for each statement.
    static constexpr bool accepts(const cenote::sql::column_info& c) {
        return c.type == cenote::sql::column_type::decimal;
    }
    // Throws bad_value for what is no money. Gets no null.
    static money read(const cenote::sql::cell& c) { return money::parse(c.text()); }
};

template <>
inline constexpr auto cenote::sql::enum_names<state> =
    std::to_array<cenote::sql::enum_name<state>>({{state::open, "open"},
                                                  {state::paid, "paid"}});

template <>
inline constexpr auto cenote::sql::columns<account> =
    std::tuple{cenote::sql::column{"id", &account::id},
               cenote::sql::column{"owner", &account::owner}};

namespace samples {

void named(cenote::database& db, const std::string& city) {
    namespace sql = cenote::sql;
    db.execute("UPDATE customer SET city = :city WHERE id = :id", sql::named("id", 7),
               sql::named("city", city));
}
void use(auto& /*value*/) {}
void rows_of_database(cenote::database& db) {
    struct account { std::int64_t id; std::string owner; std::optional<std::string> city; };
    for (account& each : db.query_as<account>("SELECT id, owner, city FROM account"))
        use(each);
}
void rows_of_connection(cenote::sql::connection& c) {
    struct account { std::int64_t id; std::string owner; std::optional<std::string> city; };
    for (account& each : c.query_as<account>("SELECT id, owner, city FROM account"))
        use(each);
}
void cursor_of(cenote::sql::connection& c) {
    auto rows = c.stream_as<account>("SELECT id, owner FROM account");
    while (std::optional<account> each = rows.next()) export_customer(each->id);
}
static_assert(cenote::sql::detail::has_codec<money>);
static_assert(cenote::sql::detail::named_enum<state>);

// clang-format on

}  // namespace samples

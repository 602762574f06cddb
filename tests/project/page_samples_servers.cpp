// The code of the guide's pages for servers and services; see page_samples.cpp.
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "cenote/asio.hpp"
#include "cenote/dashboard.hpp"
#include "cenote/database.hpp"
#include "cenote/http.hpp"
#include "cenote/http_server.hpp"
#include "cenote/mariadb.hpp"
#include "cenote/metrics.hpp"
#include "cenote/pool.hpp"
#include "cenote/postgres.hpp"
#include "cenote/redis.hpp"
#include "cenote/redis_subscribe.hpp"
#include "cenote/request_scope.hpp"
#include "cenote/service.hpp"
#include "cenote/sqlite.hpp"
#include "cenote/trace_context.hpp"

namespace asio = boost::asio;

namespace samples {

struct session {
    std::string fetch(const std::string& key) { return key; }
};
session connect();
bool in_cache(const std::string& key);
std::string cached(const std::string& key);
extern const std::string token_from_the_vault;
std::string as_json(const cenote::sql::result& rows);
void greet(std::int64_t id, const std::string& name);
void write(std::string_view piece);
template <class... Ts>
void use(const Ts&...);
template <class... Ts>
void reply(const Ts&...);

void reload(const std::string& what);
void reload_all();

// clang-format off

void many(cenote::database& db, std::int64_t sum, std::int64_t from, std::int64_t to) {
    {
        std::vector<std::tuple<int, std::string>> rows{{1, "Ada"}, {2, "Grace"}};
        std::uint64_t inserted =
            db.execute_many("INSERT INTO customer (id, name) VALUES (?, ?)", rows);
        use(inserted);
        try {
            db.execute_many("INSERT INTO customer (id, name) VALUES (?, ?)", rows);
        } catch (const cenote::sql::batch_error& e) {
            std::printf("row %zu: %s\n", e.index(), e.what());
        }
    }
    cenote::sql::batch both;
    both.add("UPDATE account SET balance = balance - ? WHERE id = ?", sum, from);
    both.add("UPDATE account SET balance = balance + ? WHERE id = ?", sum, to);
    std::vector<cenote::sql::result> results = db.execute(both);
}

void copies(cenote::database& db, const std::map<std::string, int>& visits, std::FILE* file) {
    {
        cenote::sql::copy_in to = db.copy_in("COPY visit (page, count) FROM STDIN");
        for (const auto& [page, count] : visits) to.write_row(page, count);
        std::uint64_t copied = to.finish();
        use(copied);
    }
    cenote::sql::copy_out from = db.copy_out("COPY visit TO STDOUT (FORMAT csv)");
    while (auto bytes = from.next())
        std::fwrite(bytes->data(), 1, bytes->size(), file);
}

asio::awaitable<void> many_awaited(cenote::database& db, const cenote::sql::batch& both,
                                   const std::vector<std::tuple<int, std::string>>& rows,
                                   const std::map<std::string, int>& visits) {
    cenote::sql::many_options each_by_itself{.atomic = false};
    std::uint64_t inserted = co_await db.async_execute_many(
        "INSERT INTO customer (id, name) VALUES (?, ?)", rows, each_by_itself);
    std::vector<cenote::sql::result> results = co_await db.async_execute(both);
    cenote::sql::copy_in to = co_await db.async_copy_in("COPY visit (page, count) FROM STDIN");
    for (const auto& [page, count] : visits) co_await to.async_write_row(page, count);
    std::uint64_t copied = co_await to.async_finish();
    use(inserted, copied);
}

cenote::database_view of_tenant(const cenote::database& db, std::string_view tenant);
void tenants(const cenote::database& db) {
    cenote::database_view acme = of_tenant(db, "acme");
    auto orders = acme.query("SELECT id, total FROM orders");  // those of acme
}
asio::awaitable<void> tenants_awaited(const cenote::database& db) {
    auto tenant = db.with({.role = "tenant_a", .settings = {{"app.region", "eu"}}});
    auto orders = co_await tenant.async_query("SELECT id, total FROM orders");
}

void notifying(cenote::database& db, std::int64_t id) {
    db.execute("SELECT pg_notify('orders', ?)", std::to_string(id));
}
void listening(cenote::database& db) {
    cenote::notifications orders = db.listen("orders");
    while (auto n = orders.next()) {
        if (n->missed) reload_all();
        else reload(n->payload);
    }
}
asio::awaitable<void> listening_awaited(cenote::database& db) {
    using namespace std::chrono_literals;
    cenote::channel_list both{"orders", "prices"};
    cenote::notifications changes = co_await db.async_listen(both, {.probe_after = 10s});
    while (auto n = co_await changes.async_next()) use(n->channel, n->payload);
}
void subscribing(const char* url) {
    cenote::pool<cenote::redis::connection> pool{cenote::redis::connector{url}, {.max = 10}};
    cenote::notifications within = cenote::redis::subscribe(pool, {"eur", "usd"});
    cenote::notifications beside =
        cenote::redis::psubscribe(cenote::redis::connector{url}, "news.*");
}

void dashboard() {
    cenote::dashboard board;                   // listens on 127.0.0.1, any free port
    cenote::pool<session> pool{connect, {.name = "orders", .observers = {board.observer()}}};
    auto shown = board.watch(pool.control());  // as long as this lives
    std::puts(board.url().c_str());            // http://127.0.0.1:40123/
}
void dashboard_of_database(cenote::dashboard& board, cenote::database& db) {
    std::vector<cenote::dashboard::entry> shown;
    for (cenote::pool_control each : db.controls()) shown.push_back(board.watch(each));
}
void dashboard_with_control() {
    cenote::dashboard board({.control_token = cenote::secret(token_from_the_vault)});
}
void dashboard_with_metrics() {
    cenote::dashboard board({.port = 9100, .serve_metrics = true, .serve_health = true});
}

void queries(cenote::database& db, const std::string& city) {
    for (auto [id, name] : db.query("SELECT id, name FROM customer WHERE city = ?", city)
                               .as<std::int64_t, std::string>())
        greet(id, name);
    auto count = db.query("SELECT count(*) FROM customer").scalar<std::int64_t>();
    auto found = db.query("SELECT name FROM customer WHERE id = ?", 7).at_most_one<std::string>();
    if (found) greet(7, *found);
}
void replicas(std::string_view primary, std::string_view first, std::string_view second) {
    cenote::database db{primary, cenote::replicas{first, second}};
    auto report = db.scope({.read_only = true});  // a replica's connection
}
cenote::credentials_source token_for(const char* host);
void replicas_with_options() {
    auto primary = cenote::postgres::options::from_url(
        "postgresql://app@primary.example.com/orders");  // without a password
    primary.credentials = token_for("primary.example.com");
    cenote::postgres::options replica = primary;
    replica.hosts = {{.name = "replica.example.com", .port = 5432}};
    replica.credentials = token_for("replica.example.com");
    cenote::database db{primary, cenote::replicas{replica}};
}

void http_blocking() {
    namespace http = cenote::http;
    cenote::pool<http::connection> pool{http::connector("https://api.example.org"), {.max = 20}};

    auto connection = pool.acquire();
    http::response answer =
        connection->send(http::get("/orders?id=7").with("Accept", "text/plain"));
    if (answer.status == 200) use(answer.body, answer.headers.find("etag"));

    http::streamed file = connection->stream(http::get("/large"));
    while (auto piece = file.next()) write(*piece);
}
namespace http = cenote::http;
asio::awaitable<void> http_awaited(cenote::pool<http::connection>& pool, std::string json) {
    auto connection = co_await pool.async_acquire(asio::use_awaitable);
    http::response answer = co_await connection->async_send(http::post("/orders", json));
}

void mariadb() {
    cenote::pool<cenote::mariadb::connection> pool{
        cenote::mariadb::connector{"mariadb://app:secret@db.example.com/orders"}, {.max = 20}};

    auto lease = pool.acquire();
    auto rows = lease->execute("SELECT id, name FROM customer WHERE city = ?", "Oslo");
    for (const auto& row : rows) use(row.get<int>("id"), row.get<std::string>("name"));
}
asio::awaitable<void> mariadb_awaited(asio::io_context& io, std::string_view url) {
    cenote::pool<cenote::mariadb::connection> pool{io, cenote::mariadb::async_connector{url}, {}};

    auto lease = co_await pool.async_acquire(boost::asio::use_awaitable);
    auto rows = co_await lease->async_execute("SELECT now()");
}

void metrics(cenote::pool<session>& pool) {
    cenote::metrics all;                                             // <cenote/metrics.hpp>
    auto orders = all.add(pool.control());                           // watched until this ends
    // GET /metrics: all.prometheus(), of the type cenote::metrics::content_type
    use(all.prometheus(), cenote::metrics::content_type);
}

std::string instance_name();

void set_up_postgres(std::string_view url) {
    cenote::postgres::options where = cenote::postgres::options::from_url(url);
    where.on_open = [](cenote::postgres::connection& c) {
        c.execute("select set_config('app.instance', $1, false)", instance_name());
        c.execute("create temp table recent (id bigint primary key)");
    };
}
void set_up_mariadb(std::string_view url) {
    cenote::mariadb::options where = cenote::mariadb::options::from_url(url);
    where.on_open = [](cenote::mariadb::connection& c) {
        c.execute("SET @instance = ?", instance_name());
        c.execute("CREATE TEMPORARY TABLE recent (id BIGINT PRIMARY KEY)");
    };
}
void set_up_database(std::string_view url) {
    cenote::database db(url, {.on_open = [](cenote::sql::connection& c) {
        c.execute("SELECT set_config('app.instance', $1, false)", instance_name());
    }});
}

void postgres() {
    cenote::pool<cenote::postgres::connection> pool{
        cenote::postgres::connector{"postgresql://app:secret@db.example.com/orders"}, {.max = 20}};

    auto lease = pool.acquire();
    auto rows = lease->execute("select id, name from customer where city = $1", "Oslo");
    for (const auto& row : rows) use(row.get<int>("id"), row.get<std::string>("name"));
}
asio::awaitable<void> postgres_awaited(asio::io_context& io, std::string_view url) {
    cenote::pool<cenote::postgres::connection> pool{io, cenote::postgres::async_connector{url}, {}};

    auto lease = co_await pool.async_acquire(boost::asio::use_awaitable);
    auto rows = co_await lease->async_execute("select now()");
}

void redis() {
    cenote::pool<cenote::redis::connection> pool{
        cenote::redis::connector{"redis://:password@localhost:6379/2"}, {.max = 10}};

    auto redis = pool.acquire();
    redis->command("SET", "greeting", "hello", "EX", 60);
    auto value = redis->command("GET", "greeting").as<std::optional<std::string>>();

    cenote::redis::pipeline p;
    p.add("INCR", "visits").add("GET", "greeting");
    std::vector<cenote::redis::reply> both = redis->execute(p);  // one exchange; errors in place

    redis->command("WATCH", "visits");
    auto done = redis->transaction(p);          // MULTI … EXEC; empty if a watched key has changed
}
asio::awaitable<void> redis_awaited(cenote::pool<cenote::redis::connection>& pool) {
    auto redis = co_await pool.async_acquire(asio::use_awaitable);
    cenote::redis::reply got = co_await redis->async_command("GET", "greeting");
}

std::int64_t count_orders(cenote::sql::connection& c) {
    return c.execute("SELECT count(*) FROM orders").scalar<std::int64_t>();
}
void servers() {
    cenote::pool<cenote::postgres::connection> pool{
        cenote::postgres::connector{"postgresql://app:secret@localhost/orders"}, {.max = 16}};

    auto lease = pool.acquire();
    auto rows = lease->execute("SELECT id, total FROM orders WHERE customer = $1", 42);
    for (const auto& row : rows) use(row.get<std::int64_t>("id"), row.get<double>("total"));

    count_orders(*pool.acquire());  // a pool of any of the three
}
asio::awaitable<void> servers_awaited(cenote::pool<cenote::postgres::connection>& pool) {
    auto lease = co_await pool.async_acquire(boost::asio::use_awaitable);
    auto rows = co_await lease->async_execute("SELECT now()");
}

void answers(cenote::database& db) {
    cenote::answer said = cenote::answering([&] {
        auto rows = db.query("SELECT …");
        return cenote::answer(200, as_json(rows), "application/json");
    });
    reply(said.status(), said.content_type(), said.body(), said.retry_after());
}
std::string scopes(cenote::pool<session>& pool, const std::string& key) {
    return cenote::with_scope(pool, [&](cenote::request_scope<session>& s) {
        if (in_cache(key)) return cached(key);     // nothing was taken
        return s.get().fetch(key);                 // now there is one, until the end
    });
}
void front(asio::io_context& io, asio::ip::address address, cenote::http_server::handler handle) {
    cenote::http_server::server front{
        io.get_executor(), {address, 8080}, handle, {.body = 64 << 10}};
}

void sqlite() {
    cenote::pool<cenote::sqlite::connection> pool{
        cenote::sqlite::connector{"sqlite:/var/lib/app/orders.db"}, {.max = 8}};

    auto lease = pool.acquire();
    lease->execute("INSERT INTO orders(customer, total) VALUES (?, ?)", 42, 9.5);

    auto rows = lease->stream("SELECT * FROM orders WHERE customer = ?", 42);
    while (auto row = rows.next()) std::puts(row->get<std::string>("name").c_str());
}

void rows_as_structs(cenote::database& db) {
    struct account {
        std::int64_t id;
        std::string owner;
        std::optional<std::string> city;
        std::chrono::sys_days opened;
    };
    for (const account& each :
         db.query_as<account>("SELECT id, owner, city, opened FROM account WHERE id < ?", 100))
        greet(each.id, each.owner);
}
void rows_as_tuples(cenote::database& db) {
    for (const auto& [id, owner] : db.query_as<std::pair<std::int64_t, std::string>>(
             "SELECT id, owner FROM account"))
        greet(id, owner);
    std::vector<std::int64_t> ids = db.query_as<std::int64_t>("SELECT id FROM account");
}
void borrowed_rows(cenote::database& db) {
    struct photo {
        std::int64_t id;
        std::span<const std::byte> image;
    };
    auto photos = db.stream_as<photo>("SELECT id, image FROM photo");
    while (std::optional<photo> each = photos.next()) use(each->image);
}
void named_parameters(cenote::database& db) {
    using cenote::sql::named;
    db.execute("UPDATE account SET city = :city WHERE id = :id OR owner = :city", named("id", 7),
               named("city", "Jena"));
}

class customer {
public:
    std::int64_t number = 0;
    std::string name;
};
enum class delivery { waiting, sent };
struct price {
    std::int64_t cents = 0;
    static price from_text(std::string_view text);
};

}  // namespace samples
using samples::customer;
using samples::delivery;
using samples::price;

template <>
inline constexpr auto cenote::sql::columns<customer> =
    std::tuple{cenote::sql::column{"id", &customer::number},
               cenote::sql::column{"full_name", &customer::name}};

template <>
inline constexpr auto cenote::sql::enum_names<delivery> =
    std::to_array<cenote::sql::enum_name<delivery>>(
        {{delivery::waiting, "waiting"}, {delivery::sent, "sent"}});

template <>
struct cenote::sql::codec<price> {
    static constexpr bool accepts(const cenote::sql::column_info& column) {
        return column.type == cenote::sql::column_type::decimal;
    }
    static price read(const cenote::sql::cell& cell) { return price::from_text(cell.text()); }
};

namespace samples {

void rows_as_classes(cenote::database& db) {
    use(db.query_as<customer>("SELECT id, full_name FROM customer"),
        db.query_as<std::tuple<delivery, price>>("SELECT state, price FROM parcel"));
}

void traces(cenote::database& orders, const cenote::trace_context& request, std::int64_t id) {
    {
        auto db = orders.with({.task = "checkout", .trace = request});
        db.execute("UPDATE stock SET n = n - 1 WHERE id = ?", id);
    }
    {
        std::string name = request.traceparent();
        auto db = orders.with({.settings = {{"application_name", name}}, .trace = request});
        use(db);
    }
}

// clang-format on

}  // namespace samples

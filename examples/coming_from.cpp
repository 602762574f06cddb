// The samples of docs/guide/coming_from: what code for other pools becomes with cenote.
// Usage: coming_from [mariadb://user:password@host/database]
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <cenote/asio.hpp>
#include <cenote/asio_connector.hpp>
#include <cenote/database.hpp>
#include <cenote/mariadb.hpp>
#include <cenote/pool.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

void expect(bool holds, const char* what) {
    std::printf("%s: %s\n", what, holds ? "true" : "FALSE");
    if (!holds) throw std::logic_error(what);
}

// HikariCP.

void from_hikaricp(const std::string& url) {
    cenote::database db{url,
                        {.pool = {.name = "orders",
                                  .max = 16,
                                  .min_size = 16,  // HikariCP's default: a fixed size
                                  .acquire_timeout = 10s,
                                  .leak_after = 20s}}};
    db.execute("UPDATE stock SET quantity = quantity - ? WHERE item = ?", 2, "tea");

    db.transaction([](cenote::transaction& t) {  // commits, or rolls back on an exception
        t.execute("UPDATE stock SET quantity = quantity - ? WHERE item = ?", 1, "tea");
        t.execute("INSERT INTO sale VALUES (?, ?)", "tea", 1);
    });
}

// pgxpool.

void from_pgxpool(const std::string& url) {
    cenote::database db{url, {.pool = {.max = 16, .idle_timeout = 5min}}};

    db.with({.timeout = 10s}).transaction([](cenote::transaction& t) {
        t.execute("UPDATE stock SET quantity = quantity - $1 WHERE item = $2", 2, "tea");
        t.execute("INSERT INTO sale VALUES ($1, $2)", "tea", 2);
    });
    auto left = db.query("SELECT quantity FROM stock WHERE item = $1", "tea").scalar<int>();
    expect(left == 95, "tea is left");
}

// SOCI.

int from_soci(const std::string& url, const std::string& item) {
    cenote::database db{url, {.pool = {.max = 10}}};

    return db.query("SELECT quantity FROM stock WHERE item = ?", item).scalar<int>();
}

// POCO.

/// Stands for an object that takes long to make.
class parser {
public:
    std::size_t parse(std::string_view text) { return text.size(); }
};

int from_poco(const std::string& url, const std::string& item) {
    cenote::database db{url, {.pool = {.max = 16, .min_size = 1, .idle_timeout = 60s}}};

    auto now = db.with({.queue = false});  // does not wait: throws line_full_error
    return now.query("SELECT quantity FROM stock WHERE item = ?", item).scalar<int>();
}

std::size_t from_poco_object_pool(std::string_view text) {
    cenote::pool<parser> parsers{[] { return parser(); }, {.max = 8, .idle_timeout = 1min}};

    auto p = parsers.acquire_for(10s);  // throws timed_out_error
    return p->parse(text);
}  // returns the parser, also after an exception

// Boost.MySQL.

asio::awaitable<std::string> name_of(cenote::pool<cenote::mariadb::connection>& pool,
                                     std::int64_t id) {
    auto conn = co_await pool.co_acquire_for(1s);
    auto rows = co_await conn->async_execute("SELECT name FROM employee WHERE id = ?", id);
    co_return rows.at_most_one<std::string>().value_or("NOT_FOUND");
}

asio::awaitable<void> ask(cenote::pool<cenote::mariadb::connection>& pool, std::string& name) {
    co_await (co_await pool.co_acquire())
        ->async_execute("CREATE TABLE employee (id BIGINT PRIMARY KEY, name TEXT)");
    name = co_await name_of(pool, 7);
    co_await (co_await pool.co_acquire())->async_execute("DROP TABLE employee");
    co_await pool.async_close(5s, asio::use_awaitable);
}

void from_boost_mysql(const std::string& url) {
    std::string name;

    asio::io_context ctx;
    cenote::pool<cenote::mariadb::connection> pool{
        ctx, cenote::mariadb::async_connector{url}, {.max = 16}};
    asio::co_spawn(ctx, ask(pool, name), [](const std::exception_ptr& error) {
        if (error) std::rethrow_exception(error);
    });
    ctx.run();  // until the pool is closed

    expect(name == "NOT_FOUND", "there is no such employee");
}

void on_sqlite() {
    std::string url = "sqlite:coming_from?mode=memory";
    cenote::database db{url};
    db.execute("CREATE TABLE stock (item TEXT PRIMARY KEY, quantity INTEGER)");
    db.execute("CREATE TABLE sale (item TEXT, quantity INTEGER)");
    db.execute("INSERT INTO stock VALUES (?, ?)", "tea", 100);
    from_hikaricp(url);
    from_pgxpool(url);
    expect(from_soci(url, "tea") == 95, "SOCI's query");
    expect(from_poco(url, "tea") == 95, "POCO's query");
    expect(from_poco_object_pool("text") == 4, "POCO's object pool");
}

}  // namespace

int main(int argc, char** argv) {
    try {
        if (argc > 1) from_boost_mysql(argv[1]);
        else on_sqlite();
        return 0;
    } catch (const std::exception& e) {
        std::printf("failed: %s\n", e.what());
        return 1;
    }
}

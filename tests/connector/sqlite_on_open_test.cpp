// Sessions of SQLite as options::on_open sets them up.
#include <atomic>
#include <memory>
#include <sqlite3.h>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/pool.hpp"
#include "cenote/sqlite.hpp"
#include "connector/awaiting.hpp"
#include "connector/sqlite_file.hpp"
#include "support/patient.hpp"

namespace cenote::sqlite {
namespace {

using support::await;

struct sqlite_on_open : testing::Test {
    options with(std::function<void(connection&)> what, std::size_t cache = 0) const {
        options o = options::from_url(file.url());
        o.on_open = std::move(what);
        o.statement_cache = cache;
        return o;
    }
    void set_up(connection& c) const {
        c.execute("PRAGMA recursive_triggers = on");
        c.execute("ATTACH ? AS Cache", ":memory:");
        c.execute("CREATE TABLE cache.names (i INTEGER, name TEXT)");
        c.execute("INSERT INTO cache.names VALUES (1, 'one')");
        c.execute("CREATE TEMP TABLE mine (i INTEGER, name TEXT)");
        sql::statement add = c.prepare("INSERT INTO mine VALUES (?, ?)");
        c.execute(add, 1, "eins");
        c.execute(add, 2, "zwei");
        c.execute_many("INSERT INTO mine VALUES (?, 'mehr')", std::vector<int>{3, 4});
        c.execute(
            "CREATE TEMP VIEW both AS SELECT name FROM mine UNION ALL "
            "SELECT name FROM cache.names");
        sql::batch two;
        two.add("UPDATE mine SET i = i + 10").add("DELETE FROM mine WHERE i = 14");
        c.execute(two);
    }

    static constexpr const char* look =
        "SELECT (SELECT group_concat(name) FROM both) || (SELECT sum(i) FROM mine) || "
        "(SELECT recursive_triggers FROM pragma_recursive_triggers)";
    static constexpr const char* seen = "eins,zwei,mehr,one361";

    support::sqlite_file file;
};

TEST_F(sqlite_on_open, is_found_by_every_lease) {
    const std::vector<std::string> changes{
        "DELETE FROM mine",
        "INSERT INTO mine VALUES (7, 'sieben')",
        "DROP VIEW both",
        "DROP TABLE mine",
        "ATTACH ':memory:' AS other",
        "PRAGMA recursive_triggers = off",
        "CREATE TEMP TABLE another (n)",
        "CREATE TEMP TRIGGER gone AFTER DELETE ON mine BEGIN DELETE FROM mine; END",
        "BEGIN",
        "SELECT 1"};
    for (std::size_t cache : {0u, 10u}) {
        pool<connection> one{connector{with([this](connection& c) { set_up(c); }, cache)},
                             support::patient(1)};
        for (int again = 0; again < 2; ++again)
            for (const std::string& change : changes) {
                SCOPED_TRACE(change);
                auto lease = one.acquire();
                EXPECT_EQ(lease->execute(look).scalar<std::string>(), seen);
                lease->execute(change);
                if (change == "BEGIN") lease->execute("DELETE FROM mine");
            }
        auto lease = one.acquire();
        EXPECT_EQ(await(lease->async_execute(look)).scalar<std::string>(), seen);
        EXPECT_EQ(lease->execute("PRAGMA database_list").size(), 3u);
        EXPECT_EQ(one.stats().opened, 1u);
    }
}

TEST_F(sqlite_on_open, is_called_by_an_awaited_open) {
    async_connector to{with([this](connection& c) { set_up(c); })};
    auto open = [&]() -> boost::asio::awaitable<std::string> {
        connection c = co_await to.open();
        sql::result found = co_await c.async_execute(look);
        co_return found.scalar<std::string>();
    };
    EXPECT_EQ(await(open()), seen);
}

/// What it wrote there would be lost.
TEST_F(sqlite_on_open, costs_the_connection_if_a_lease_detaches_its_database) {
    pool<connection> one{connector{with([this](connection& c) { set_up(c); })},
                         support::patient(1)};
    {
        auto lease = one.acquire();
        lease->execute("DROP VIEW both");
        lease->execute("DETACH CACHE");
    }
    EXPECT_EQ(one.acquire()->execute(look).scalar<std::string>(), seen);
    EXPECT_EQ(one.stats().opened, 2u);
}

/// Only what it does to the session is repeated.
TEST_F(sqlite_on_open, is_not_repeated_in_the_file) {
    connector plain{file.url()};
    plain.open().execute("CREATE TABLE opened (n)");
    pool<connection> one{connector{with([](connection& c) {
                             c.execute("CREATE TEMP TABLE mine AS SELECT count(*) n FROM opened");
                             c.execute("INSERT INTO opened VALUES (1)");
                         })},
                         support::patient(1)};
    for (int i = 0; i < 5; ++i) {
        auto lease = one.acquire();
        EXPECT_EQ(lease->execute("SELECT count(*) FROM opened").scalar<int>(), 1);
        EXPECT_EQ(lease->execute("SELECT n FROM mine").scalar<int>(), 1);
        lease->execute("DROP TABLE mine");
    }
}

TEST_F(sqlite_on_open, fails_the_open_with_its_exception) {
    auto calls = std::make_shared<std::atomic<int>>(0);
    auto what = [calls](connection& c) {
        switch (++*calls) {
            case 1: throw std::runtime_error("the moon is wrong");
            case 2: c.execute("SELEKT"); break;
            case 3: c.execute("BEGIN"); break;
            default: break;
        }
    };
    connector to{with(what)};
    EXPECT_THROW(to.open(), std::runtime_error);
    EXPECT_THROW(to.open(), statement_error);
    EXPECT_THROW(to.open(), std::logic_error);
    EXPECT_NO_THROW(to.open());
}

TEST_F(sqlite_on_open, fails_the_open_if_it_cannot_be_repeated) {
    connector plain{file.url()};
    plain.open().execute("CREATE TABLE source (n)");
    connector to{with([](connection& c) {
        c.execute("CREATE TEMP TABLE mine AS SELECT * FROM source");
        c.execute("DROP TABLE source");
    })};
    EXPECT_THROW(to.open(), statement_error);
}

TEST_F(sqlite_on_open, has_limits) {
    connector long_one{with([](connection& c) {
        c.execute("CREATE TEMP TABLE mine (t)");
        for (int i = 0; i < 100; ++i)
            c.execute("INSERT INTO mine VALUES (?)", std::string(1000, 'x'));
    })};
    EXPECT_THROW(long_one.open(), std::length_error);
    auto setup = std::make_shared<sql::lease_setup>();
    connector with_setup{with([setup](connection& c) { c.use(setup); })};
    EXPECT_THROW(with_setup.open(), std::logic_error);
}

}  // namespace
}  // namespace cenote::sqlite

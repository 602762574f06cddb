// 14: a database as one object: statements, a scope and transactions, from threads and coroutines,
// on SQLite, PostgreSQL or MariaDB. Usage: 14_database [URL]
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <cenote/database.hpp>

namespace {

namespace asio = boost::asio;

void move_money(cenote::database& db, int from, int to, std::int64_t amount) {
    db.transaction(
        [&](cenote::transaction& t) {
            t.execute("UPDATE account SET balance = balance - ? WHERE id = ?", amount, from);
            t.execute("UPDATE account SET balance = balance + ? WHERE id = ?", amount, to);
            auto left = t.query("SELECT balance FROM account WHERE id = ?", from);
            if (left.scalar<std::int64_t>() < 0) throw std::runtime_error("not enough money");
        },
        {.retries = 5});  // after a conflict with another transaction
}

asio::awaitable<void> report(cenote::database& db) {
    auto reports = db.with({.timeout = std::chrono::seconds(1), .task = "report"});
    auto rows = co_await reports.async_stream("SELECT id, balance FROM account ORDER BY id");
    while (auto row = co_await rows.async_next()) {
        auto [id, balance] = row->as<int, std::int64_t>();
        std::printf("account %d: %lld\n", id, static_cast<long long>(balance));
    }
}

}  // namespace

int main(int argc, char** argv) {
    asio::io_context io;  // before the database, whose pool posts to it
    cenote::database db{argc > 1 ? argv[1] : "sqlite:example14?mode=memory"};
    db.execute("DROP TABLE IF EXISTS account");
    db.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, balance BIGINT NOT NULL)");
    for (int id = 1; id <= 3; ++id) db.execute("INSERT INTO account VALUES (?, ?)", id, 100);

    std::vector<std::thread> clerks;
    for (int clerk = 0; clerk < 4; ++clerk)
        clerks.emplace_back([&] {
            for (int i = 0; i < 10; ++i) move_money(db, 1 + i % 3, 1 + (i + 1) % 3, 7);
        });
    for (std::thread& c : clerks) c.join();

    try {
        move_money(db, 1, 2, 1'000'000);
    } catch (const std::runtime_error& e) {
        std::printf("%s: the transaction was rolled back\n", e.what());
    }

    asio::co_spawn(io, report(db), [](const std::exception_ptr& error) {
        if (error) std::rethrow_exception(error);
    });
    io.run();

    {
        auto request = db.scope();  // one connection for several statements
        std::int64_t all = 0;
        for (auto balance :
             request.query("SELECT balance FROM account WHERE id <= $1", 3).as<std::int64_t>())
            all += balance;
        auto rich = request.query("SELECT id FROM account WHERE balance > $1", all / 2);
        std::printf("total %lld; accounts with more than half of it: %zu\n",
                    static_cast<long long>(all), rich.size());
    }
    db.execute("DROP TABLE account");
}

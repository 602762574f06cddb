// 6: PostgreSQL: parameters, a transaction, an error that keeps the connection, and a coroutine on
// the same pool. Usage: 6_postgres postgresql://user:password@host/database
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdint>
#include <cstdio>
#include <string>

#include <cenote/asio.hpp>
#include <cenote/pool.hpp>
#include <cenote/postgres.hpp>

namespace {

namespace asio = boost::asio;
using cenote::postgres::connection;

void pay(connection& c, int customer, double amount) {
    c.execute("BEGIN");
    c.execute("INSERT INTO cenote_example VALUES ($1, $2)", customer, amount);
    c.execute("COMMIT");  // after an exception before this line, the pool rolls back
}

asio::awaitable<double> paid_by(cenote::pool<connection>& pool, int customer) {
    auto lease = co_await pool.async_acquire(asio::use_awaitable);
    auto sum = co_await lease->async_execute(
        "SELECT sum(amount) FROM cenote_example WHERE customer = $1", customer);
    co_return sum.scalar<double>();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2)
        return std::puts("usage: 6_postgres postgresql://user:password@host/database"), 0;
    asio::io_context io;  // before the pool, whose threads post to it
    cenote::pool<connection> pool{cenote::postgres::connector{argv[1]},
                                  {.name = "orders", .max = 4}};
    pool.with([](connection& c) {
        c.execute("DROP TABLE IF EXISTS cenote_example");
        c.execute("CREATE TABLE cenote_example(customer int PRIMARY KEY, amount float8)");
    });
    for (int customer = 1; customer <= 3; ++customer)
        pool.with([&](connection& c) { pay(c, customer, customer * 1.5); });
    try {
        pool.with([](connection& c) { pay(c, 2, 99); });
    } catch (const cenote::statement_error& e) {
        std::printf("%s: the connection is reset and stays in the pool\n", e.sqlstate().data());
    }
    asio::co_spawn(io, paid_by(pool, 2), [](const std::exception_ptr& error, double sum) {
        if (error == nullptr) std::printf("customer 2 paid %.2f\n", sum);
    });
    io.run();
    pool.with([](connection& c) { c.execute("DROP TABLE cenote_example"); });
    std::printf("%llu connections were opened\n",
                static_cast<unsigned long long>(pool.stats().opened));
}

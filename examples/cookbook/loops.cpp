// Recipes: coroutines, and one pool per event loop.
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cookbook.hpp"
#include <cenote/asio.hpp>
#include <cenote/asio_connector.hpp>
#include <cenote/database.hpp>
#include <cenote/per_executor.hpp>
#include <cenote/service.hpp>
#include <cenote/sqlite.hpp>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using cookbook::expect;

namespace {

using cenote::sqlite::connection;

// Coroutines with Asio.

asio::awaitable<std::int64_t> next_number(cenote::pool<connection>& pool) {
    auto lease = co_await pool.co_acquire_for(500ms);  // suspends; the thread goes on
    auto rows = co_await lease->async_execute("SELECT ? + ?", 20, 22);
    co_return rows.scalar<std::int64_t>();
}

asio::awaitable<void> serve(cenote::pool<connection>& pool, std::int64_t& number) {
    co_await pool.async_wait_ready(asio::use_awaitable);  // until the minimum is open
    number = co_await next_number(pool);
    co_await pool.async_close(5s, asio::use_awaitable);  // before the loop ends
}

std::int64_t on_one_loop() {
    asio::io_context io(1);  // before the pool, so that it ends after it
    cenote::pool<connection> pool{
        io,
        cenote::sqlite::async_connector{"sqlite:cookbook_loop?mode=memory"},
        {.max = 4, .min_size = 1}};
    std::int64_t number = 0;
    asio::co_spawn(io, serve(pool, number), asio::detached);
    io.run();
    return number;
}

asio::awaitable<cenote::answer> answer(cenote::database& db) {
    std::exception_ptr failed;
    try {
        auto rows = co_await db.async_query("SELECT count(*) FROM orders");
        co_return cenote::answer(200, std::to_string(rows.scalar<std::int64_t>()));
    } catch (...) {
        failed = std::current_exception();  // no co_await in a catch block
    }
    if (auto known = cenote::answer_to(failed)) co_return *known;  // 503 with Retry-After
    std::rethrow_exception(failed);
}

asio::awaitable<void> answer_into(cenote::database& db, std::string& body) {
    auto said = co_await answer(db);
    body = said.body();
}

// One pool per event loop.

using shards = cenote::per_executor<connection>;

asio::awaitable<std::int64_t> work(shards& pools) {
    auto lease = co_await pools.async_acquire_for(500ms, asio::use_awaitable);  // of this loop
    auto rows = co_await lease->async_execute("SELECT 1");
    co_return rows.scalar<std::int64_t>();
}

std::int64_t on_two_loops() {
    std::vector<std::unique_ptr<asio::io_context>> loops;
    std::vector<asio::io_context::executor_type> executors;
    for (int i = 0; i < 2; ++i) {
        loops.push_back(std::make_unique<asio::io_context>(1));  // one thread each
        executors.push_back(loops.back()->get_executor());
    }
    shards pools{executors,
                 cenote::sqlite::async_connector{"sqlite:cookbook_loops?mode=memory"},
                 {.name = "orders", .max = 8, .min_size = 2}};  // four and one per loop

    std::vector<std::jthread> threads;
    for (auto& loop : loops) threads.emplace_back([&loop] { loop->run(); });
    pools.async_wait_ready(asio::use_future).get();
    std::vector<std::future<std::int64_t>> results;
    for (auto& executor : executors)
        results.push_back(asio::co_spawn(executor, work(pools), asio::use_future));

    std::int64_t sum = 0;
    for (auto& result : results) sum += result.get();
    pools.async_close(5s, asio::use_future).get();  // then nothing keeps the loops running
    return sum;
}

}  // namespace

void cookbook::loops() {
    expect(on_one_loop() == 42, "a coroutine got its answer");
    expect(on_two_loops() == 2, "each loop got its answer");

    asio::io_context io;
    cenote::database db{"sqlite:cookbook_answer?mode=memory"};
    db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)");
    std::string body;
    asio::co_spawn(io, answer_into(db, body), asio::detached);
    io.run();
    expect(body == "0", "an answer of a coroutine");
}

// Combines database, API and server. The order of members is the reverse order of their ends.
#include "examples/orders_service/running.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdio>
#include <exception>
#include <memory>

#include "examples/orders_service/api.hpp"
#include "examples/orders_service/orders.hpp"
#include <cenote/breaker.hpp>

namespace orders_service {

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

void report(const std::exception_ptr& error) {
    try {
        std::rethrow_exception(error);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "orders: a request failed: %s\n", e.what());
    } catch (...) {
        std::fprintf(stderr, "orders: a request failed\n");
    }
}

cenote::database open_database(const settings& how) {
    cenote::database db(how.database, {.pool = pool_options(how)});
    create_tables(db, how.database);
    return db;
}

asio::ip::tcp::endpoint endpoint_of(const settings& how) {
    return {asio::ip::make_address(how.listen), how.port};
}

}  // namespace

cenote::options pool_options(const settings& how) {
    return {.name = "orders",
            .max = how.max,
            .min_size = std::min<std::size_t>(how.max, 2),
            .acquire_timeout = how.wait,
            .line_max = 16 * how.max,
            .shed = {.target = how.wait / 5},
            .breaker = std::make_shared<cenote::threshold_breaker>(),
            .observers = how.observers};
}

running::running(const settings& how)
    : io_(static_cast<int>(how.threads)),
      db_(open_database(how)),
      watched_(about_.watch("orders", db_, {.minimum = pool_options(how).min_size})),
      server_(io_.get_executor(), endpoint_of(how), make_api(db_, about_), how.limits, report),
      busy_(asio::make_work_guard(io_)) {
    try {
        for (std::size_t i = 0; i < std::max<std::size_t>(how.threads, 1); ++i)
            threads_.emplace_back([this] { io_.run(); });
    } catch (...) {  // a thread could not be created
        end();
        throw;
    }
}

running::~running() { end(); }

std::size_t running::stop(std::chrono::nanoseconds within) {
    announce_end();
    if (threads_.empty()) return 0;
    auto drained = asio::co_spawn(io_, server_.drain(within), asio::use_future);
    std::size_t lost = drained.get();
    end();
    return lost;
}

void running::end() {
    io_.stop();
    for (std::thread& each : threads_) each.join();
    threads_.clear();
}

}  // namespace orders_service

// 10: a pool that logs its first open, an outage, and its end.
#include <atomic>
#include <chrono>
#include <memory>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <stdexcept>

#include <cenote/pool.hpp>
#include <cenote/spdlog.hpp>

using namespace std::chrono_literals;

namespace {

/// Stands for a connection.
struct session {};

/// A server that refuses the first three connections.
struct server {
    std::atomic<int> opens{0};

    session open() {
        if (++opens <= 3) throw std::runtime_error("connection refused");
        return {};
    }
};

}  // namespace

int main() {
    auto there = std::make_shared<server>();
    auto connect = [there] { return there->open(); };

    auto sink = std::make_shared<spdlog::sinks::stdout_sink_mt>();
    auto logger = std::make_shared<spdlog::logger>("app", sink);
    logger->set_pattern("[%l] %v");

    auto log = std::make_shared<cenote::spdlog_observer>(logger);
    cenote::pool<session> pool{connect, {.name = "orders", .max = 4, .observers = {log}}};

    pool.acquire().give_back();  // three opens fail, the fourth succeeds: two log lines
    return pool.close(1s) == 0 ? 0 : 1;
}

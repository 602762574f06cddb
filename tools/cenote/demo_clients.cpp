// The requests of a demo client, and how it classifies responses.
#include "demo_clients.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <utility>

#include <cenote/asio.hpp>

namespace demo {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

constexpr std::size_t threads = 2;
constexpr int created = 201;
constexpr int conflict = 409;  // already paid
constexpr int not_found = 404;
constexpr int unavailable = 503;
constexpr int unknown = 504;  // the outcome of a transaction

const char* const order_of_tea =
    R"({"customer":"ann","lines":[{"item":"tea","quantity":2,"cents":350}]})";

/// Of 20 requests 15 read an order, 3 list orders, one creates and one pays an order.
cenote::http::request next_request(std::minstd_rand& random, std::uint64_t orders) {
    std::uint64_t which = 1 + random() % std::max<std::uint64_t>(orders, 1);
    switch (random() % 20) {
        case 0: return cenote::http::post("/orders", order_of_tea);
        case 1: return cenote::http::post("/orders/" + std::to_string(which) + "/pay", "");
        case 2:
        case 3:
        case 4:
            return cenote::http::get("/orders?limit=10&after=" +
                                     std::to_string(which - std::min<std::uint64_t>(which, 10)));
        default: return cenote::http::get("/orders/" + std::to_string(which));
    }
}

}  // namespace

clients::clients(std::uint16_t port, std::size_t count, std::chrono::nanoseconds think)
    : pool_(cenote::http::connector("http://127.0.0.1:" + std::to_string(port)),
            {.name = "clients", .max = count, .acquire_timeout = 30s}),
      think_(think) {
    for (std::size_t i = 0; i < count; ++i)
        asio::co_spawn(io_, client(static_cast<std::uint32_t>(i)), asio::detached);
    for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { io_.run(); });
}

clients::~clients() { stop(); }

void clients::stop() {
    over_ = true;
    for (std::thread& t : threads_)
        if (t.joinable()) t.join();
}

responses clients::so_far() const {
    responses all{
        .requests = requests_, .ordered = ordered_, .refused = refused_, .unknown = unknown_};
    for (std::size_t i = 0; i < times_.size(); ++i) all.times.buckets[i] = times_[i];
    std::lock_guard lock(mutex_);
    all.failures = failures_;
    all.first_failure = first_failure_;
    return all;
}

asio::awaitable<void> clients::client(std::uint32_t number) {
    std::minstd_rand random(number + 1);
    asio::steady_timer pause(io_);
    while (!over_) {
        cenote::http::request what = next_request(random, ordered_);
        std::string problem;
        try {
            co_await send(std::move(what));
        } catch (const std::exception& e) {
            problem = e.what();
        }
        if (!problem.empty()) record_failure(problem);
        // After a failure, too: an immediate retry would make an overload worse.
        pause.expires_after(think_ / 2 + think_ * static_cast<int>(random() % 100) / 100);
        co_await pause.async_wait(asio::use_awaitable);
    }
}

asio::awaitable<void> clients::send(cenote::http::request what) {
    bool orders = what.method == "POST" && what.target == "/orders";
    auto begun = steady_clock::now();
    cenote::lease<cenote::http::connection> lease =
        co_await pool_.async_acquire(asio::use_awaitable);
    cenote::http::response response = co_await lease->async_send(std::move(what));
    record(response, orders, steady_clock::now() - begun);
}

void clients::record(const cenote::http::response& response, bool orders,
                     std::chrono::nanoseconds took) {
    ++requests_;
    ++times_[cenote::histogram::bucket_of(took)];
    int status = response.status;
    if (status == unavailable && response.headers.contains("Retry-After")) {
        ++refused_;
    } else if (status == unknown) {
        if (orders) ++unknown_;
    } else if (orders && status == created) {
        ++ordered_;
    } else if (bool fine = status < 300 || status == conflict || status == not_found;
               !fine || orders) {
        record_failure("the service responded with status " + std::to_string(status));
    }
}

void clients::record_failure(const std::string& what) {
    std::lock_guard lock(mutex_);
    if (failures_++ == 0) first_failure_ = what;
}

}  // namespace demo

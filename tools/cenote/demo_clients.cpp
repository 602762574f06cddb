// What a client does, and how it takes a refusal.
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
constexpr int conflict = 409;  // somebody else has paid for it
constexpr int not_found = 404;
constexpr int unavailable = 503;
constexpr int unknown = 504;  // whether it was done

const char* const order_of_tea =
    R"({"customer":"ann","lines":[{"item":"tea","quantity":2,"cents":350}]})";

/// Some look at an order, some at the latest ones, a few order or pay.
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

told clients::so_far() const {
    told all{.requests = requests_, .ordered = ordered_, .refused = refused_, .unknown = unknown_};
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
            co_await ask(std::move(what));
        } catch (const std::exception& e) {
            problem = e.what();
        }
        if (!problem.empty()) note_failure(problem);
        // Also after a failure: whoever asks at once makes it worse.
        pause.expires_after(think_ / 2 + think_ * static_cast<int>(random() % 100) / 100);
        co_await pause.async_wait(asio::use_awaitable);
    }
}

asio::awaitable<void> clients::ask(cenote::http::request what) {
    bool orders = what.method == "POST" && what.target == "/orders";
    auto begun = steady_clock::now();
    cenote::lease<cenote::http::connection> held =
        co_await pool_.async_acquire(asio::use_awaitable);
    cenote::http::response answer = co_await held->async_send(std::move(what));
    note(answer, orders, steady_clock::now() - begun);
}

void clients::note(const cenote::http::response& answer, bool orders,
                   std::chrono::nanoseconds took) {
    ++requests_;
    ++times_[cenote::histogram::bucket_of(took)];
    if (answer.status == unavailable && answer.headers.contains("Retry-After")) {
        ++refused_;
    } else if (answer.status == unknown) {
        if (orders) ++unknown_;
    } else if (orders && answer.status == created) {
        ++ordered_;
    } else if (bool fine =
                   answer.status < 300 || answer.status == conflict || answer.status == not_found;
               !fine || orders) {
        note_failure("the service answered " + std::to_string(answer.status));
    }
}

void clients::note_failure(const std::string& what) {
    std::lock_guard lock(mutex_);
    if (failures_++ == 0) first_failure_ = what;
}

}  // namespace demo

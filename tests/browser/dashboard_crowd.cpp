// A program with many pools, of which some have every kind of trouble, for tests of the overview.
//
// usage: dashboard_crowd POOLS calm|trouble
//
// POOLS is the number of healthy pools; they are groups of shards, and one database with replicas.
// `trouble` adds a pool with 500 slots and a pool for each kind of trouble. Prints the dashboard's
// URL and the control token, then executes a command per line:
//   rest   stop the users of the healthy pools          work   resume them
//   bye    exit (as at the end of the input)
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "cenote/dashboard.hpp"
#include "cenote/pool.hpp"
#include "cenote/secret.hpp"

namespace {

using namespace std::chrono_literals;

/// A connector whose calls fail as the scene wants.
struct server {
    const char* open_error = nullptr;
    const char* probe_error = nullptr;
    const char* reset_error = nullptr;
    const char* address = "";

    std::string endpoint() const { return address; }
    int open() const {
        if (open_error != nullptr) throw std::runtime_error(open_error);
        return 1;
    }
    void probe(int&) const {
        if (probe_error != nullptr) throw std::runtime_error(probe_error);
    }
    void reset(int&) const {
        if (reset_error != nullptr) throw std::runtime_error(reset_error);
    }
    cenote::verdict before_release(int&) const {
        return reset_error == nullptr ? cenote::verdict::keep : cenote::verdict::reset;
    }
};

using pool = cenote::pool<int>;

class scene {
public:
    scene(std::size_t pools, bool trouble, const std::string& token)
        : board_({.control_token = cenote::secret(token)}) {
        for (std::size_t i = 0; i < pools; ++i) add({.name = name_of(i), .max = 4 + i % 9});
        healthy_ = pools_.size();
        if (trouble) add_trouble();
        run([this](const std::stop_token& stop) { use_all(stop); });
    }

    std::string url() const { return board_.url(); }
    void rest() { resting_ = true; }
    void work() { resting_ = false; }

private:
    /// Groups of eight shards, and a database with two replicas.
    static std::string name_of(std::size_t i) {
        constexpr std::array<std::string_view, 8> what{"orders", "billing", "search", "mail",
                                                       "stock",  "carts",   "users",  "images"};
        constexpr std::size_t shards = 8;
        if (i < 3) return i == 0 ? "main" : "main-replica-" + std::to_string(i);
        std::size_t group = (i - 3) / shards;
        std::string name(what.at(group % what.size()));
        if (group >= what.size()) name += "-eu" + std::to_string(group / what.size()) + "x";
        return name + '/' + std::to_string((i - 3) % shards);
    }

    pool& add(cenote::options how, const server& connector = {}) {
        how.observers = {board_.observer()};
        pools_.push_back(std::make_unique<pool>(connector, how));
        shown_.push_back(board_.watch(pools_.back()->control()));
        return *pools_.back();
    }
    template <class F>
    void run(F f) {
        users_.emplace_back(f);
    }

    /// Short leases of each pool in turn.
    void use_all(const std::stop_token& stop) {
        for (std::size_t i = 0; !stop.stop_requested(); ++i) {
            std::this_thread::sleep_for(resting_ ? 50ms : 2ms);
            if (resting_ || healthy_ == 0) continue;
            std::error_code error;
            auto held = pools_[i % healthy_]->acquire({.stop = stop, .task = "work"}, error);
        }
    }
    /// A caller that holds its lease for `hold`, again and again.
    void use(pool& of, const char* task, std::chrono::nanoseconds timeout,
             std::chrono::nanoseconds hold) {
        run([&of, task, timeout, hold](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                std::error_code error;
                auto held = of.acquire({.timeout = timeout, .stop = stop, .task = task}, error);
                std::this_thread::sleep_for(held ? hold : 10ms);
            }
        });
    }
    /// A caller that holds a lease and waits for another one.
    void nest(pool& of, const char* task) {
        run([&of, task](const std::stop_token& stop) {
            std::error_code error;
            auto first = of.acquire({.stop = stop, .task = task}, error);
            while (!stop.stop_requested()) {
                auto second = of.acquire({.timeout = 1h, .stop = stop, .task = task}, error);
            }
        });
    }

    void add_trouble() {
        add_broken_servers();
        add_held_leases();
        pool& crowded = add({.name = "crowded", .max = 2});
        for (const char* task : {"checkout", "checkout", "invoice", "search", "mail", "search"})
            use(crowded, task, 5s, 20ms);
        add({.name = "ledger", .max = 6}).deactivate();
        use(*pools_.back(), "booking", 1s, 5ms);
        pool& archive = add({.name = "archive", .max = 3});
        archive.pause();
        for (int i = 0; i < 3; ++i) use(archive, "monthly report", 1h, 5ms);
        use(archive, "audit", 1h, 5ms);
    }

    void add_broken_servers() {
        server down{.open_error = "connection refused: 10.0.0.7:5432",
                    .address = "postgresql://10.0.0.7:5432/calls"};
        use(add({.name = "gateway", .max = 8, .acquire_timeout = 300ms}, down), "call", 300ms, 1ms);
        server ill{.probe_error = "the server closed the connection unexpectedly"};
        use(add({.name = "cache", .max = 4, .probe_after_idle = 0ms}, ill), "read", 1s, 1ms);
        server dirty{.reset_error = "ROLLBACK failed: the transaction is unknown"};
        use(add({.name = "scratch", .max = 4}, dirty), "import", 1s, 1ms);
    }

    void add_held_leases() {
        pool& locks = add({.name = "locks", .max = 2, .leak_after = 1h});
        nest(locks, "transfer");
        nest(locks, "settle");
        pool& exports = add({.name = "exports", .max = 6, .leak_after = 100ms});
        run([&](const std::stop_token& stop) { hold(exports, 2, "nightly export", stop); });
        pool& wide = add({.name = "wide", .max = 500, .opening_max = 50, .leak_after = 1h});
        run([&](const std::stop_token& stop) { hold(wide, 130, "stream", stop); });
    }
    static void hold(pool& of, std::size_t count, const char* task, const std::stop_token& stop) {
        auto held = of.acquire_many(count, {.timeout = 1h, .task = task});
        while (!stop.stop_requested()) std::this_thread::sleep_for(10ms);
    }

    std::atomic<bool> resting_{false};
    cenote::dashboard board_;
    std::vector<std::unique_ptr<pool>> pools_;
    std::size_t healthy_ = 0;
    std::vector<cenote::dashboard::entry> shown_;
    std::vector<std::jthread> users_;  // destroyed first
};

}  // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fputs("usage: dashboard_crowd POOLS calm|trouble\n", stderr);
        return 2;
    }
    const std::string token = "a-token-for-tests-only";
    scene on(std::strtoul(argv[1], nullptr, 10), std::string_view(argv[2]) == "trouble", token);
    std::cout << on.url() << ' ' << token << std::endl;
    for (std::string line; std::getline(std::cin, line) && line != "bye";) {
        if (line == "rest") on.rest();
        if (line == "work") on.work();
        std::cout << "ok" << std::endl;
    }
}

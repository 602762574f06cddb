// cenote-demo: many threads share a few costly things; then things go wrong, and it recovers.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include <cenote/pool.hpp>

namespace {

using namespace std::chrono_literals;
constexpr std::size_t threads = 16;
constexpr std::size_t places = 4;

/// Many keys in order: costly to make, quick to ask, for one user at a time.
struct index {
    index() : keys(200'000) {
        std::uint64_t x = 1;
        for (auto& key : keys) key = x = x * 6364136223846793005u + 1442695040888963407u;
        std::sort(keys.begin(), keys.end());
    }
    bool has(std::uint64_t key) { return std::binary_search(keys.begin(), keys.end(), key); }
    std::vector<std::uint64_t> keys;
};

/// Counts what an operator would want to know. It asks for rare events only, so it costs nothing.
struct watcher : cenote::observer {
    bool wants(cenote::event_kind kind) const override {
        return kind == cenote::event_kind::open_failed || kind == cenote::event_kind::discarded;
    }
    void on_event(const cenote::event& what) override {
        ++(what.kind == cenote::event_kind::discarded ? discarded : failed);
    }
    std::atomic<int> discarded{0}, failed{0};
};

struct scene {
    index make() {
        if (outage) throw std::runtime_error("the disk is away");
        return {};
    }
    double served() const {
        return double(std::accumulate(served_by.begin(), served_by.end(), std::uint64_t{0}));
    }

    std::atomic<bool> over{false}, outage{false};
    std::atomic<int> refused{0};
    std::array<std::atomic<std::uint64_t>, threads> served_by{};
    std::shared_ptr<watcher> seen = std::make_shared<watcher>();
    cenote::pool<index> pool{
        [this] { return make(); },
        {.name = "indexes", .max = places, .acquire_timeout = 250ms, .observers = {seen}}};
};

/// A request looks up some keys and waits for a millisecond, as if for a disk.
void serve(scene& s, std::uint64_t key) {
    s.pool.with([&](index& i) {
        if (s.outage) throw std::runtime_error("the disk is away");  // so this index is discarded
        for (std::uint64_t n = 0; n < 100; ++n) static_cast<void>(i.has(key * n));
        std::this_thread::sleep_for(1ms);
    });
}

void work(scene& s, std::size_t me) {
    for (std::uint64_t key = me; !s.over; ++key) try {
            serve(s, key);
            ++s.served_by[me];
        } catch (const std::exception&) {
            ++s.refused;
            std::this_thread::sleep_for(5ms);
        }
}

double ms(std::chrono::nanoseconds d) { return double(d.count()) / 1e6; }

void watch_load(const scene& s) {
    std::printf("%zu threads and a pool of %zu indexes\n\n", threads, places);
    for (int i = 1; i <= 4; ++i) {
        std::this_thread::sleep_for(500ms);
        cenote::stats now = s.pool.stats();
        std::printf("  %.1f s  %6.0f served  %2.0f leased  %2.0f waiting\n", i * 0.5, s.served(),
                    double(now.leased), double(now.waiting));
        std::fflush(stdout);
    }
    cenote::stats now = s.pool.stats();
    auto [least, most] = std::minmax_element(s.served_by.begin(), s.served_by.end());
    double open = ms(now.open.quantile(0.5));
    std::printf("\n  requests served  %8.0f\n  indexes made     %8.0f     %.0f ms each\n",
                s.served(), double(now.opened), open);
    std::printf("  wait             %8.2f ms  p99 %.2f ms\n  hold             %8.2f ms\n",
                ms(now.wait.quantile(0.5)), ms(now.wait.quantile(0.99)),
                ms(now.hold.quantile(0.5)));
    std::printf("  by each thread   %8.0f     to %.0f\n", double(*least), double(*most));
    std::printf("\n  One made per request would have been %.0f s of work instead of %.1f s.\n",
                s.served() * open / 1000, double(now.opened) * open / 1000);
}

void survive_outage(scene& s) {
    std::printf("\nAn outage of 0.4 s: whatever is in use breaks, and no index can be made.\n");
    s.refused = 0;
    s.outage = true;
    std::this_thread::sleep_for(400ms);
    s.outage = false;
    auto ended = std::chrono::steady_clock::now();
    for (double before = s.served(); s.served() <= before;) std::this_thread::sleep_for(1ms);
    std::printf(
        "  %d discarded, %d tries to make another, %d requests told why\n"
        "  served again %.0f ms after its end\n",
        s.seen->discarded.load(), s.seen->failed.load(), s.refused.load(),
        ms(std::chrono::steady_clock::now() - ended));
}

void explain_timeout(scene& s) {
    std::printf("\nSomebody keeps all %zu. Whoever times out is told who:\n", places);
    std::vector<cenote::lease<index>> kept;
    kept.push_back(s.pool.acquire_for(5s));
    while (kept.size() < places) kept.push_back(s.pool.acquire_for(5s));
    try {
        auto one_more = s.pool.acquire_for(100ms);
    } catch (const cenote::timed_out_error& e) {
        std::printf("  %s\n", e.what());
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1) {
        std::printf(
            "usage: cenote-demo\nA pool at work for three seconds: load, outage, timeout.\n");
        return std::string_view(argv[1]) == "--help" ? 0 : 2;
    }
    scene s;
    std::vector<std::jthread> workers;
    for (std::size_t i = 0; i < threads; ++i) workers.emplace_back([&s, i] { work(s, i); });
    watch_load(s);
    survive_outage(s);
    s.over = true;
    workers.clear();  // joins
    explain_timeout(s);
}

// 2: many threads share a few resources: waiting, timeouts, and the reasons of a refusal.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

#include <cenote/pool.hpp>

using namespace std::chrono_literals;

namespace {

/// Stands for a connection.
struct session {
    int number;
};

/// Eight threads share three sessions; waiters are served in the order of arrival.
void share(cenote::pool<session>& pool) {
    std::atomic<int> in_use{0};
    std::atomic<int> most{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([&] {
            for (int n = 0; n < 50; ++n) {
                auto lease = pool.acquire();  // waits in line, for at most acquire_timeout
                int now = ++in_use;
                for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
                }
                std::this_thread::yield();  // the work
                --in_use;
            }
        });
    threads.clear();  // joins
    cenote::stats s = pool.stats();
    std::printf("%d leases, never more than 3 at once: %s\n", static_cast<int>(s.granted),
                most <= 3 ? "true" : "FALSE");
}

/// All sessions are leased: three ways to learn why an acquire fails. On other threads, because a
/// thread that waited for its own leases would be refused.
void acquire_in_vain(cenote::pool<session>& pool) {
    std::vector<cenote::lease<session>> all;
    for (int i = 0; i < 3; ++i) all.push_back(pool.acquire());

    std::jthread([&] {
        try {
            auto one_more = pool.acquire_for(20ms);
        } catch (const cenote::timed_out_error& e) {
            std::printf("%s\n", e.what());  // names the source lines of the three leases
        }

        std::error_code error;
        auto none = pool.acquire({.timeout = 20ms}, error);
        std::printf("without exceptions: %s\n", error.message().c_str());
    }).join();

    std::stop_source shutdown;
    std::jthread waiting([&, stop = shutdown.get_token()] {
        std::error_code why;
        auto lease = pool.acquire({.stop = stop}, why);  // ends when a stop is requested
        std::printf("stopped: %s\n", why == cenote::errc::canceled ? "canceled" : "no");
    });
    shutdown.request_stop();
}

}  // namespace

int main() {
    std::atomic<int> last{0};
    cenote::pool<session> pool{[&] { return session{++last}; }, {.name = "sessions", .max = 3}};
    share(pool);
    acquire_in_vain(pool);
    return pool.close(1s) == 0 ? 0 : 1;  // refuses waiters, closes all sessions
}

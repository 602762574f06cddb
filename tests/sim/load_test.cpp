// Compares the simulated load with queueing theory.
#include "sim/load.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gmock/gmock.h>

namespace {

using namespace std::chrono_literals;
using cenote::core::duration;
using cenote::sim::level;
using cenote::sim::load;
using cenote::sim::load_result;
using cenote::sim::measured_server;

/// Exponentially distributed service times.
std::vector<duration> exponential(duration mean, std::size_t shares = 20'000) {
    std::vector<duration> all;
    for (std::size_t i = 0; i < shares; ++i) {
        double u = (static_cast<double>(i) + 0.5) / static_cast<double>(shares);
        all.push_back(duration{std::llround(-std::log(1 - u) * static_cast<double>(mean.count()))});
    }
    return all;
}

/// A server whose service times do not depend on the concurrency.
measured_server unmoved(std::vector<duration> service, duration reset = {}) {
    return measured_server({{.at_once = 1, .service = service, .reset = reset, .handover = {}},
                            {.at_once = 1000, .service = service, .reset = reset, .handover = {}}});
}

/// A server that is limited by its processors alone.
measured_server of_processors(std::size_t count, duration service) {
    std::vector<level> levels = {{.at_once = 1, .service = {service}, .reset = {}, .handover = {}}};
    if (count > 1)
        levels.push_back({.at_once = count, .service = {service}, .reset = {}, .handover = {}});
    return measured_server(levels);
}

cenote::options pool_of(std::size_t max) {
    return {.name = "simulated", .max = max, .acquire_timeout = 1h, .line_max = 1'000'000};
}

double seconds(duration d) { return std::chrono::duration<double>(d).count(); }

double mean(const std::vector<duration>& all) {
    return seconds(std::accumulate(all.begin(), all.end(), duration{})) /
           static_cast<double>(all.size());
}

/// The probability that one has to wait, with c servers and a erlangs of load.
double erlang_c(std::size_t c, double a) {
    double term = 1, sum = 0;
    for (std::size_t k = 0; k < c; ++k) {
        sum += term;
        term *= a / static_cast<double>(k + 1);
    }
    double last = term * static_cast<double>(c) / (static_cast<double>(c) - a);
    return last / (sum + last);
}

struct queue {
    std::size_t servers;
    double utilization;
};

class load_theory : public testing::TestWithParam<queue> {};

TEST_P(load_theory, agrees_with_erlang_about_waits) {
    auto [servers, utilization] = GetParam();
    double service = 0.001;
    double a = utilization * static_cast<double>(servers);
    load_result r = run(pool_of(servers), unmoved(exponential(1ms)),
                        {.rate = a / service, .leases = 400'000, .seed = 7});
    double waited = static_cast<double>(std::count_if(r.wait.begin(), r.wait.end(),
                                                      [](duration d) { return d > 0ns; })) /
                    static_cast<double>(r.wait.size());
    double expected = erlang_c(servers, a);
    EXPECT_NEAR(waited, expected, 0.03 * expected);
    double expected_wait = expected * service / (static_cast<double>(servers) - a);
    EXPECT_NEAR(mean(r.wait), expected_wait, 0.07 * expected_wait);
    EXPECT_NEAR(r.throughput, a / service, 0.02 * a / service);
}

INSTANTIATE_TEST_SUITE_P(queues, load_theory,
                         testing::Values(queue{1, 0.5}, queue{1, 0.8}, queue{2, 0.7}, queue{4, 0.8},
                                         queue{16, 0.9}));

TEST(load, agrees_with_theory_about_constant_service_times) {
    // M/D/1: half of the wait at an exponential server.
    load_result r = run(pool_of(1), unmoved({1ms}), {.rate = 700, .leases = 200'000, .seed = 3});
    double expected = 0.7 * 0.001 / (2 * 0.3);
    EXPECT_NEAR(mean(r.wait), expected, 0.05 * expected);
}

TEST(load, keeps_littles_law) {
    load_result r =
        run(pool_of(8), unmoved(exponential(2ms), 1ms), {.rate = 1500, .leases = 100'000});
    double busy = 0;
    for (std::size_t n = 0; n < r.busy.size(); ++n) busy += static_cast<double>(n) * r.busy[n];
    EXPECT_NEAR(busy, 1500 * 0.003, 0.1);  // a lease and its reset
    EXPECT_NEAR(std::accumulate(r.busy.begin(), r.busy.end(), 0.0), 1.0, 1e-9);
    EXPECT_GE(r.busy_quantile(0.99), r.busy_quantile(0.5));
}

TEST(load, in_a_closed_loop_is_as_fast_as_the_server_at_the_size_of_the_pool) {
    measured_server server(
        {{.at_once = 1, .service = exponential(1ms), .reset = 200us, .handover = {}},
         {.at_once = 4, .service = exponential(2ms), .reset = 300us, .handover = {}},
         {.at_once = 8, .service = exponential(5ms), .reset = 400us, .handover = {}}});
    for (std::size_t max : {1u, 2u, 4u, 6u, 8u, 12u}) {
        load_result r = run(pool_of(max), server, {.borrowers = 32, .leases = 50'000});
        EXPECT_NEAR(r.throughput, server.throughput(max), 0.03 * server.throughput(max)) << max;
    }
}

TEST(load, waits_for_resets_that_only_a_busy_server_is_slow_with) {
    measured_server server({{.at_once = 1, .service = {1ms}, .reset = {}, .handover = {}},
                            {.at_once = 4, .service = {1ms}, .reset = 1ms, .handover = {}}});
    load_result r = run(pool_of(4), server, {.borrowers = 8, .leases = 5000});
    EXPECT_NEAR(r.throughput, 2000, 40);
}

TEST(load, of_a_hold_takes_no_server) {
    // For each borrower that is served ten hold their lease.
    measured_server busy(
        {{.at_once = 1, .service = exponential(1ms), .reset = {}, .handover = {}}});
    load_result r = run(pool_of(33), busy, {.borrowers = 50, .hold = 10ms, .leases = 20'000});
    EXPECT_NEAR(r.throughput, 1000, 20);
    load_result half =
        run(pool_of(5), of_processors(1, 1ms), {.borrowers = 50, .hold = 10ms, .leases = 20'000});
    EXPECT_LT(half.throughput, 500);
}

TEST(load, that_has_to_wait_pays_for_being_woken) {
    measured_server server({{.at_once = 1, .service = {1ms}, .reset = {}, .handover = 250us},
                            {.at_once = 2, .service = {1ms}, .reset = {}, .handover = 250us}});
    load_result alone = run(pool_of(2), server, {.borrowers = 2, .leases = 1000});
    EXPECT_NEAR(alone.throughput, 2000, 5);
    load_result crowded = run(pool_of(2), server, {.borrowers = 8, .leases = 1000});
    EXPECT_NEAR(crowded.throughput, 1600, 5);
}

TEST(load, beyond_what_the_server_can_do_is_not_served) {
    load_result r = run(pool_of(2), of_processors(2, 1ms), {.rate = 4000, .leases = 20'000});
    EXPECT_NEAR(r.throughput, 2000, 50);
    EXPECT_GT(load_result::quantile(r.wait, 0.99), 1s);
}

TEST(load, refuses_borrowers_that_wait_too_long) {
    cenote::options pool = pool_of(1);
    pool.acquire_timeout = 10ms;
    load_result r = run(pool, of_processors(1, 1ms), {.rate = 2000, .leases = 20'000});
    EXPECT_NEAR(static_cast<double>(r.refused), 10'000, 1000);
    EXPECT_LE(r.wait.back(), 10ms);
}

TEST(load, from_the_same_seed_is_the_same) {
    auto once = [](std::uint64_t seed) {
        return run(pool_of(3), unmoved(exponential(1ms), 100us),
                   {.rate = 2000, .leases = 5000, .seed = seed});
    };
    load_result a = once(1), b = once(1), c = once(2);
    EXPECT_EQ(a.total, b.total);
    EXPECT_EQ(a.wait, b.wait);
    EXPECT_NE(a.total, c.total);
}

TEST(load, needs_measurements_that_make_sense) {
    using levels = std::vector<level>;
    EXPECT_THROW(measured_server(levels{}), std::invalid_argument);
    EXPECT_THROW(
        measured_server(levels{{.at_once = 1, .service = {}, .reset = {}, .handover = {}}}),
        std::invalid_argument);
    EXPECT_THROW(
        measured_server(levels{{.at_once = 1, .service = {2ms, 1ms}, .reset = {}, .handover = {}}}),
        std::invalid_argument);
    EXPECT_THROW(
        measured_server(levels{{.at_once = 2, .service = {1ms}, .reset = {}, .handover = {}},
                               {.at_once = 2, .service = {1ms}, .reset = {}, .handover = {}}}),
        std::invalid_argument);
    EXPECT_THROW(run(pool_of(0), of_processors(1, 1ms), load{}), std::invalid_argument);
}

TEST(load, of_a_server_is_interpolated_and_beyond_it_slows_down) {
    measured_server server({{.at_once = 1, .service = {1ms}, .reset = {}, .handover = {}},
                            {.at_once = 3, .service = {3ms}, .reset = {}, .handover = {}}});
    EXPECT_EQ(server.mean_service(2), 2ms);
    EXPECT_EQ(server.mean_service(6), 6ms);
    EXPECT_NEAR(server.throughput(6), 1000, 1);
}

}  // namespace

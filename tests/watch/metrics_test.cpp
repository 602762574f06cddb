// Metrics contain the stats of pools, in the formats they claim.
#include "cenote/metrics.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "cenote/pool.hpp"
#include "support/patience.hpp"

namespace cenote {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

/// Stats of different numbers, so that mixing up two of them is noticed.
stats distinct() {
    stats s;
    std::uint64_t next = 1000;
    for (auto number : {&stats::max,
                        &stats::total,
                        &stats::leased,
                        &stats::idle,
                        &stats::opening,
                        &stats::probing,
                        &stats::resetting,
                        &stats::closing,
                        &stats::waiting,
                        &stats::acquires,
                        &stats::granted,
                        &stats::waited,
                        &stats::released,
                        &stats::discarded,
                        &stats::detached,
                        &stats::opened,
                        &stats::open_failed,
                        &stats::closed,
                        &stats::abandoned,
                        &stats::events_lost,
                        &stats::try_empty,
                        &stats::leaks,
                        &stats::refused_after_wait})
        s.*number = ++next;
    for (auto& each : s.retired_by_reason) each = ++next;
    for (auto& each : s.refused_by_reason) each = ++next;
    s.breaker = breaker_state::recovering;
    s.state = pool_state::paused;
    return s;
}

void count(histogram& in, std::chrono::nanoseconds value, std::uint64_t times = 1) {
    in.buckets[histogram::bucket_of(value)] += times;
}

/// The samples of a text, by name and labels.
std::map<std::string, double> samples_of(const std::string& text) {
    std::map<std::string, double> all;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('#')) continue;
        std::size_t space = line.rfind(' ');
        std::string key = line.substr(0, space);
        EXPECT_FALSE(all.contains(key)) << key << " is repeated";
        all[key] = std::stod(line.substr(space + 1));
    }
    return all;
}

struct written : testing::Test {
    metrics all;
    stats now = distinct();
    metrics::entry entry = all.add("orders", [this] { return now; });

    double value(const std::string& key) {
        auto samples = samples_of(all.prometheus());
        EXPECT_TRUE(samples.contains(key)) << key;
        return samples[key];
    }
};

TEST_F(written, has_every_number_under_its_own_name) {
    auto of = [&](const std::string& name, const std::string& more = "") {
        return value("cenote_pool_" + name + "{pool=\"orders\"" + more + "}");
    };
    auto is = [](std::uint64_t n) { return static_cast<double>(n); };
    EXPECT_EQ(of("max"), is(now.max));
    EXPECT_EQ(of("waiting"), is(now.waiting));
    EXPECT_EQ(of("resources", ",state=\"leased\""), is(now.leased));
    EXPECT_EQ(of("resources", ",state=\"idle\""), is(now.idle));
    EXPECT_EQ(of("resources", ",state=\"opening\""), is(now.opening));
    EXPECT_EQ(of("resources", ",state=\"probing\""), is(now.probing));
    EXPECT_EQ(of("resources", ",state=\"resetting\""), is(now.resetting));
    EXPECT_EQ(of("resources", ",state=\"closing\""), is(now.closing));
    EXPECT_EQ(of("breaker", ",state=\"active\""), 0);
    EXPECT_EQ(of("breaker", ",state=\"recovering\""), 1);
    EXPECT_EQ(of("state", ",state=\"lending\""), 0);
    EXPECT_EQ(of("state", ",state=\"paused\""), 1);
    EXPECT_EQ(of("acquires_total"), is(now.acquires));
    EXPECT_EQ(of("granted_total"), is(now.granted));
    EXPECT_EQ(of("waited_total"), is(now.waited));
    EXPECT_EQ(of("refused_after_wait_total"), is(now.refused_after_wait));
    EXPECT_EQ(of("released_total"), is(now.released));
    EXPECT_EQ(of("discarded_total"), is(now.discarded));
    EXPECT_EQ(of("detached_total"), is(now.detached));
    EXPECT_EQ(of("opened_total"), is(now.opened));
    EXPECT_EQ(of("open_failed_total"), is(now.open_failed));
    EXPECT_EQ(of("closed_total"), is(now.closed));
    EXPECT_EQ(of("abandoned_total"), is(now.abandoned));
    EXPECT_EQ(of("events_lost_total"), is(now.events_lost));
    EXPECT_EQ(of("try_empty_total"), is(now.try_empty));
    EXPECT_EQ(of("leaks_total"), is(now.leaks));
    EXPECT_EQ(of("retired_total", ",reason=\"idle\""), is(now.retired(retire_reason::idle)));
    EXPECT_EQ(of("retired_total", ",reason=\"surplus\""), is(now.retired(retire_reason::surplus)));
    EXPECT_EQ(of("refused_total", ",reason=\"timed_out\""), is(now.refused(errc::timed_out)));
    EXPECT_EQ(of("refused_total", ",reason=\"deadlock\""), is(now.refused(errc::deadlock)));
}

TEST_F(written, counts_times_below_each_bound) {
    count(now.wait, 10ns);
    count(now.wait, 3ms, 5);
    count(now.wait, std::chrono::hours(10));  // in the last bucket
    std::vector<std::pair<double, double>> bounds;
    std::string prefix = "cenote_pool_wait_seconds_bucket{pool=\"orders\",le=\"";
    for (const auto& [key, number] : samples_of(all.prometheus()))
        if (key.starts_with(prefix)) {
            std::string bound =
                key.substr(prefix.size(), key.find('"', prefix.size()) - prefix.size());
            bounds.emplace_back(bound == "+Inf" ? 1e300 : std::stod(bound), number);
        }
    std::ranges::sort(bounds);
    ASSERT_GT(bounds.size(), 10u);
    for (const auto& [bound, below] : bounds) {
        double expected = bound < 10e-9 ? 0 : bound < 3e-3 ? 1 : bound < 1e299 ? 6 : 7;
        EXPECT_EQ(below, expected) << bound;
    }
    EXPECT_EQ(value("cenote_pool_wait_seconds_count{pool=\"orders\"}"), 7);
}

TEST_F(written, has_an_approximate_sum) {
    for (auto each : {7us, 90us, 800us}) count(now.hold, each, 10);
    double sum = value("cenote_pool_hold_seconds_sum{pool=\"orders\"}");
    EXPECT_NEAR(sum, 8970e-6, 8970e-6 / 8);
}

TEST_F(written, has_the_names_of_open_telemetry) {
    auto samples = samples_of(all.open_telemetry());
    std::string pool = "{db_client_connection_pool_name=\"orders\"";
    EXPECT_EQ(samples["db_client_connection_max" + pool + "}"], static_cast<double>(now.max));
    EXPECT_EQ(
        samples["db_client_connection_count" + pool + ",db_client_connection_state=\"idle\"}"],
        static_cast<double>(now.idle));
    EXPECT_EQ(
        samples["db_client_connection_count" + pool + ",db_client_connection_state=\"used\"}"],
        static_cast<double>(now.total - now.idle));
    EXPECT_EQ(samples["db_client_connection_pending_requests" + pool + "}"],
              static_cast<double>(now.waiting));
    EXPECT_EQ(samples["db_client_connection_timeouts_total" + pool + "}"],
              static_cast<double>(now.refused(errc::timed_out)));
    for (const char* time : {"create_time", "wait_time", "use_time"})
        EXPECT_TRUE(samples.contains("db_client_connection_" + std::string(time) +
                                     "_seconds_count" + pool + "}"));
}

TEST_F(written, is_json) {
    count(now.open, 5ms, 3);
    auto second = all.add("a.b-c_D", [] { return stats(); });
    std::string text = all.json();
    std::string command =
        "python3 -c 'import json,sys; d=json.loads(sys.argv[1])[\"pools\"]; o=d[\"orders\"]; "
        "print(len(d), o[\"max\"], o[\"leased\"], o[\"breaker\"], o[\"retired\"][\"age\"], "
        "o[\"refused\"][\"shed\"], o[\"open\"][\"count\"], o[\"open\"][\"buckets\"][0][1], "
        "d[\"a.b-c_D\"][\"acquires\"])' '" +
        text + "'";
    std::FILE* python = ::popen(command.c_str(), "r");
    ASSERT_NE(python, nullptr);
    std::array<char, 200> answer{};
    ASSERT_NE(std::fgets(answer.data(), answer.size(), python), nullptr);
    EXPECT_EQ(::pclose(python), 0);
    std::ostringstream expected;
    expected << 2 << ' ' << now.max << ' ' << now.leased << " recovering "
             << now.retired(retire_reason::age) << ' ' << now.refused(errc::shed) << " 3 3 0\n";
    EXPECT_EQ(std::string(answer.data()), expected.str());
}

/// The output of promtool for a text; empty for success.
std::string promtool_errors(const std::string& text) {
    std::string name = std::filesystem::temp_directory_path() / "cenote-metrics-XXXXXX";
    int file = ::mkstemp(name.data());
    std::ofstream(name) << text;
    ::close(file);
    std::FILE* tool = ::popen(("promtool check metrics < " + name + " 2>&1").c_str(), "r");
    std::string output;
    std::array<char, 1000> part{};
    while (std::fgets(part.data(), part.size(), tool) != nullptr) output += part.data();
    int status = ::pclose(tool);
    std::filesystem::remove(name);
    return status == 0 && output.empty() ? "" : output + " (" + std::to_string(status) + ")";
}

TEST_F(written, is_accepted_by_promtool) {
    count(now.wait, 1ms, 4);
    auto second = all.add("second", [] { return stats(); });
    EXPECT_EQ(promtool_errors(all.prometheus()), "");
    EXPECT_THAT(promtool_errors("nonsense{"), HasSubstr("error"));
    // The conventions of OpenTelemetry violate one of Prometheus's.
    std::string errors = promtool_errors(all.open_telemetry());
    EXPECT_THAT(errors, testing::StartsWith("db_client_connection_count "));
    EXPECT_EQ(std::ranges::count(errors, '\n'), 1) << errors;
}

TEST(metrics_list, accepts_the_names_that_pools_accept) {
    metrics all;
    auto read = [] { return stats(); };
    for (const char* bad : {"", "a\"b", "a\nb", "a\\b", "größe"})
        EXPECT_THROW(std::ignore = all.add(bad, read), std::invalid_argument) << bad;
    EXPECT_THROW(std::ignore = all.add(std::string(101, 'a'), read), std::invalid_argument);
    EXPECT_THROW(std::ignore = all.add("a", nullptr), std::invalid_argument);
    for (const char* good : {"a b", "orders/0", "{}", "<a='b'>"}) {
        cenote::pool<int> pool{[] { return 1; }, {.name = good}};
        auto entry = all.add(pool.control());
        EXPECT_EQ(entry.name(), good);
        EXPECT_THAT(all.prometheus(), HasSubstr("cenote_pool_max{pool=\"" + entry.name() + "\"}"));
    }
}

TEST(metrics_list, numbers_equal_names) {
    metrics all;
    auto read = [] { return stats(); };
    auto first = all.add("a", read);
    auto second = all.add("a", read);
    auto third = all.add("a", read);
    EXPECT_EQ(second.name(), "a 2");
    EXPECT_EQ(third.name(), "a 3");
    second = {};
    EXPECT_EQ(all.add("a", read).name(), "a 2");
    EXPECT_THAT(all.prometheus(), HasSubstr("{pool=\"a 3\"}"));
}

TEST(metrics_list, forgets_a_pool_with_its_entry) {
    std::optional<metrics::entry> left;
    {
        metrics all;
        auto stays = all.add("stays", [] { return stats(); });
        {
            auto goes = all.add("goes", [] { return stats(); });
            metrics::entry moved = std::move(goes);
            EXPECT_THAT(all.prometheus(), HasSubstr("pool=\"goes\""));
        }
        EXPECT_THAT(all.prometheus(), Not(HasSubstr("goes")));
        EXPECT_THAT(all.prometheus(), HasSubstr("pool=\"stays\""));
        stays = all.add("other", [] { return stats(); });
        EXPECT_THAT(all.json(), Not(HasSubstr("stays")));
        left.emplace(std::move(stays));
    }
    left.reset();  // after the end of the metrics
}

/// A pool may end after its entry.
TEST(metrics_list, does_not_read_a_pool_after_its_entry) {
    metrics all;
    std::atomic<bool> reading{false};
    std::atomic<bool> gone{false};
    std::optional<metrics::entry> entry(all.add("goes", [&] {
        reading = true;
        EXPECT_TRUE(support::for_a_while([&] { return !gone; }))
            << "the entry has ended during a read";
        return stats();
    }));
    std::thread scraper([&] { std::ignore = all.prometheus(); });
    EXPECT_TRUE(support::eventually([&] { return reading.load(); }));
    entry.reset();
    gone = true;
    scraper.join();
    EXPECT_THAT(all.json(), Not(HasSubstr("goes")));
}

TEST(metrics_list, reads_pools_in_use) {
    metrics all;
    pool<int> one{[] { return 1; }, {.max = 2}};
    auto entry = all.add("one", [&] { return one.stats(); });
    std::atomic<bool> stop{false};
    std::thread works([&] {
        while (!stop) std::ignore = one.acquire();
    });
    for (int i = 0; i < 50; ++i) {
        auto samples = samples_of(all.prometheus());
        double sum = 0;
        for (const auto& [key, number] : samples)
            if (key.starts_with("cenote_pool_resources")) sum += number;
        EXPECT_LE(sum, 2);
    }
    stop = true;
    works.join();
    auto held = one.acquire();
    EXPECT_EQ(samples_of(all.prometheus())["cenote_pool_resources{pool=\"one\",state=\"leased\"}"],
              1);
}

}  // namespace
}  // namespace cenote

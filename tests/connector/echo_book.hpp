// The counters of an identity echo, and how long it runs.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace echo {

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using dice = std::minstd_rand;

// The number of requests that must be answered correctly; 0: as many as the time allows, for slow
// builds. Set by the build; the environment overrides it.
#ifndef CENOTE_ECHO_QUERIES
#define CENOTE_ECHO_QUERIES 0
#endif
inline constexpr std::uint64_t wanted_by_build = CENOTE_ECHO_QUERIES;
inline constexpr auto share_of_time = 10s;
inline constexpr std::uint64_t at_least = 1000;
/// Shorter than the timeout of the test, so that a slow run still reports its counters.
inline constexpr auto patience = 9min;

class book {
public:
    book() {
        const char* chosen = std::getenv("CENOTE_ECHO_QUERIES");
        if (chosen != nullptr) wanted_ = std::strtoull(chosen, nullptr, 10);
        if (wanted_ > wanted_by_build) limit_ = 24h;
    }
    bool over() const { return (progress() >= 1 && seen_all) || took() >= limit_; }
    /// From 0 to 1.
    double progress() const {
        auto answered = static_cast<double>(right);
        if (wanted_ > 0) return answered / static_cast<double>(wanted_);
        double by_time = std::chrono::duration<double>(took()) / share_of_time;
        return std::min(by_time, answered / static_cast<double>(at_least));
    }
    steady::duration took() const { return steady::now() - begin_; }
    bool enough() const { return right >= std::max(wanted_, at_least); }

    /// A word that no other request has.
    std::string word() { return "word-" + std::to_string(++words_); }
    /// A request was answered.
    void compare(bool same) { ++(same ? right : wrong); }
    void compare(const std::string& got, const std::string& expected) { compare(got == expected); }

    /// Whether all clients pause their faults: no cancellation, no short deadline.
    std::atomic<bool> calm{false};
    /// Whether all restarts and checks have happened.
    std::atomic<bool> seen_all{false};

    std::atomic<std::uint64_t> right{0};
    std::atomic<std::uint64_t> wrong{0};
    /// Leases that found a change of an earlier lease.
    std::atomic<std::uint64_t> inherited{0};
    std::atomic<std::uint64_t> lost{0};
    std::atomic<std::uint64_t> canceled{0};
    std::atomic<std::uint64_t> not_served{0};

private:
    std::uint64_t wanted_ = wanted_by_build;
    steady::duration limit_ = patience;
    steady::time_point begin_ = steady::now();
    std::atomic<std::uint64_t> words_{0};
};

}  // namespace echo

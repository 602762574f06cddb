// What an identity echo has seen, by all who ask, and how long it goes on.
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

// So many questions must be answered rightly; 0: as many as the time allows, which is for builds
// that are too slow for the whole. The build says how many, the environment may say otherwise.
#ifndef CENOTE_ECHO_QUERIES
#define CENOTE_ECHO_QUERIES 0
#endif
inline constexpr std::uint64_t wanted_by_build = CENOTE_ECHO_QUERIES;
inline constexpr auto share_of_time = 10s;
inline constexpr std::uint64_t at_least = 1000;
/// Somebody who gives up before the test is ended from outside can still say what was seen.
inline constexpr auto patience = 9min;

class book {
public:
    book() {
        const char* asked = std::getenv("CENOTE_ECHO_QUERIES");
        if (asked != nullptr) wanted_ = std::strtoull(asked, nullptr, 10);
        if (wanted_ > wanted_by_build) limit_ = 24h;
    }
    bool over() const { return (progress() >= 1 && seen_all) || took() >= limit_; }
    /// From 0 to 1, which is reached when enough was asked.
    double progress() const {
        auto answered = static_cast<double>(right);
        if (wanted_ > 0) return answered / static_cast<double>(wanted_);
        double by_time = std::chrono::duration<double>(took()) / share_of_time;
        return std::min(by_time, answered / static_cast<double>(at_least));
    }
    steady::duration took() const { return steady::now() - begin_; }
    bool enough() const { return right >= std::max(wanted_, at_least); }

    /// Nobody else's.
    std::string word() { return "word-" + std::to_string(++words_); }
    /// One question was answered.
    void compare(bool same) { ++(same ? right : wrong); }
    void compare(const std::string& got, const std::string& expected) { compare(got == expected); }

    /// Whether everybody is to be patient for a while: no deadline so short that it is missed.
    std::atomic<bool> calm{false};
    /// Whether everything has happened that this is about.
    std::atomic<bool> seen_all{false};

    std::atomic<std::uint64_t> right{0};
    std::atomic<std::uint64_t> wrong{0};
    /// What a lease found of the one before it.
    std::atomic<std::uint64_t> inherited{0};
    std::atomic<std::uint64_t> lost{0};
    std::atomic<std::uint64_t> cancelled{0};
    std::atomic<std::uint64_t> not_served{0};

private:
    std::uint64_t wanted_ = wanted_by_build;
    steady::duration limit_ = patience;
    steady::time_point begin_ = steady::now();
    std::atomic<std::uint64_t> words_{0};
};

}  // namespace echo

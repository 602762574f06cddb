// Which leases are reported as held too long, and how often; against a plain model, too.
#include "core/leaks.hpp"

#include <map>
#include <optional>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "core/dice.hpp"

namespace cenote::core {
namespace {

using namespace std::chrono_literals;

constexpr instant start{1h};

/// What a look at one lease says.
std::optional<duration> look(leaks& l, instant now, const leaks::lease& found) {
    l.begin_look();
    return l.see(now, found);
}

TEST(leaks, have_nothing_to_look_at_before_something_is_lent) {
    leaks l(1, 30s);
    EXPECT_EQ(l.look_at(), never);
    l.lent(start, 0s);
    EXPECT_EQ(l.look_at(), start + 30s);
    l.begin_look();
    EXPECT_EQ(l.look_at(), never);
}

TEST(leaks, are_reported_at_their_limit_and_then_at_doubling_intervals) {
    leaks l(1, 30s);
    leaks::lease one{.slot = 0, .number = 1, .since = start};
    EXPECT_EQ(look(l, start + 29s, one), std::nullopt);
    EXPECT_EQ(l.look_at(), start + 30s);
    EXPECT_EQ(look(l, start + 30s, one), 30s);
    EXPECT_EQ(l.look_at(), start + 60s);
    EXPECT_EQ(look(l, start + 59s, one), std::nullopt);
    EXPECT_EQ(look(l, start + 60s, one), 60s);
    EXPECT_EQ(look(l, start + 60s, one), std::nullopt);
    EXPECT_EQ(look(l, start + 150s, one), 150s) << "late";
    EXPECT_EQ(l.look_at(), start + 300s) << "counts from the last report";
    EXPECT_EQ(l.reported(), 1u) << "it is one lease";
}

TEST(leaks, of_the_next_lease_of_a_slot_are_others) {
    leaks l(1, 30s);
    EXPECT_EQ(look(l, start + 30s, {.slot = 0, .number = 1, .since = start}), 30s);
    leaks::lease next{.slot = 0, .number = 2, .since = start + 31s};
    EXPECT_EQ(look(l, start + 60s, next), std::nullopt);
    EXPECT_EQ(l.look_at(), start + 61s);
    EXPECT_EQ(look(l, start + 61s, next), 30s);
    EXPECT_EQ(l.reported(), 2u);
}

TEST(leaks, are_forgotten_in_the_child_of_a_fork) {
    leaks l(1, 30s);
    leaks::lease one{.slot = 0, .number = 1, .since = start};
    EXPECT_EQ(look(l, start + 30s, one), 30s);
    EXPECT_NE(l.look_at(), never);
    l.start_anew();
    EXPECT_EQ(l.look_at(), never);
    EXPECT_EQ(l.reported(), 0u);
    EXPECT_EQ(look(l, start + 31s, one), 31s) << "as if it had not been seen before";
}

TEST(leaks, are_found_in_slots_that_came_later) {
    leaks l(1, 30s);
    EXPECT_EQ(look(l, start + 30s, {.slot = 0, .number = 1, .since = start}), 30s);
    l.grow(5);
    l.grow(2);  // never fewer
    EXPECT_EQ(look(l, start + 30s, {.slot = 4, .number = 1, .since = start}), 30s);
    EXPECT_EQ(look(l, start + 30s, {.slot = 0, .number = 1, .since = start}), std::nullopt)
        << "what was known is known";
    EXPECT_EQ(l.reported(), 2u);
}

TEST(leaks, a_lease_can_have_a_limit_of_its_own) {
    leaks l(3, 30s);
    l.lent(start, 5s);
    EXPECT_EQ(l.look_at(), start + 5s);
    l.lent(start, 1min);
    EXPECT_EQ(l.look_at(), start + 5s);
    l.begin_look();
    EXPECT_EQ(l.see(start + 5s, {.slot = 0, .number = 1, .since = start, .limit = 5s}), 5s);
    EXPECT_EQ(l.see(start + 5s, {.slot = 1, .number = 1, .since = start, .limit = 1min}),
              std::nullopt);
    EXPECT_EQ(l.see(start + 5s, {.slot = 2, .number = 1, .since = start, .limit = duration::max()}),
              std::nullopt);
    EXPECT_EQ(l.look_at(), start + 10s);
}

TEST(leaks, are_not_looked_for_without_a_limit) {
    leaks l(1, duration::max());
    l.lent(start, 0s);
    EXPECT_EQ(l.look_at(), never);
    EXPECT_EQ(look(l, start + 1000h, {.slot = 0, .number = 1, .since = start}), std::nullopt);
    EXPECT_EQ(l.look_at(), never);
    l.lent(start, 1s);
    EXPECT_EQ(l.look_at(), start + 1s) << "unless a lease brings one";
}

TEST(leaks, without_any_patience_are_reported_but_not_all_the_time) {
    leaks l(1, 0s);
    l.lent(start, 0s);
    EXPECT_EQ(l.look_at(), start);
    EXPECT_EQ(look(l, start, {.slot = 0, .number = 1, .since = start}), 0s);
    EXPECT_EQ(l.look_at(), start + leaks::shortest);
}

TEST(leaks, do_not_overflow) {
    leaks l(1, 30s);
    constexpr instant old{1ns};
    constexpr instant late = never - 1s;
    EXPECT_EQ(look(l, late, {.slot = 0, .number = 1, .since = old}), late - old);
    EXPECT_EQ(l.look_at(), never);
}

/// The rule once more, as plainly as possible: every lease with all its reports.
class model {
public:
    explicit model(duration limit) : limit_(limit) {}

    void begin(slot_id slot, const leaks::lease& l) { out_[slot] = {l, {}}; }
    void end(slot_id slot) { out_.erase(slot); }

    std::optional<duration> report(instant now, slot_id slot) {
        entry& e = out_.at(slot);
        if (now < due(e)) return std::nullopt;
        e.reports.push_back(now - e.what.since);
        suspects_.insert({slot, e.what.number});
        return e.reports.back();
    }
    instant earliest() const {
        instant at = never;
        for (const auto& [slot, e] : out_) at = std::min(at, due(e));
        return at;
    }
    std::size_t suspects() const { return suspects_.size(); }

private:
    struct entry {
        leaks::lease what;
        std::vector<duration> reports;
    };

    instant due(const entry& e) const {
        if (!e.reports.empty()) {
            duration last = e.reports.back();
            return e.what.since + last + std::max(last, leaks::shortest);
        }
        return after(e.what.since, e.what.limit == 0ns ? limit_ : e.what.limit);
    }

    duration limit_;
    std::map<slot_id, entry> out_;
    std::set<std::pair<slot_id, std::uint64_t>> suspects_;
};

/// Leases come and go at random; inspections come at look_at(), or late, or without need.
void run_world(std::uint64_t seed) {
    constexpr slot_id slots = 5;
    dice random(seed);
    const duration limits[] = {0s, 10ms, 3s, 30s, duration::max()};
    duration limit = limits[random.below(5)];
    leaks mine(slots, limit);
    model theirs(limit);
    std::map<slot_id, leaks::lease> out;
    std::vector<std::uint64_t> numbers(slots);
    instant now = start;
    for (int step = 0; step < 400; ++step) {
        now += duration{random.below(random.chance(50) ? 2'000'000 : 10'000'000'000)};
        auto slot = static_cast<slot_id>(random.below(slots));
        if (random.chance(40) && out.erase(slot) > 0) theirs.end(slot);
        if (random.chance(40) && !out.contains(slot)) {
            duration own = random.chance(70) ? 0s : limits[random.below(5)];
            leaks::lease l{.slot = slot, .number = ++numbers[slot], .since = now, .limit = own};
            mine.lent(now, own);
            theirs.begin(slot, l);
            out[slot] = l;
        }
        ASSERT_LE(mine.look_at(), theirs.earliest()) << "never too late, seed " << seed;
        if (mine.look_at() > now && !random.chance(5)) continue;
        mine.begin_look();
        for (const auto& [id, l] : out)
            ASSERT_EQ(mine.see(now, l), theirs.report(now, id)) << "seed " << seed;
        ASSERT_EQ(mine.look_at(), theirs.earliest()) << "nor for nothing, seed " << seed;
    }
    ASSERT_EQ(mine.reported(), theirs.suspects()) << "seed " << seed;
}

TEST(leaks, are_those_of_a_plain_model) {
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
        run_world(seed);
        if (HasFatalFailure()) return;
    }
}

TEST(leaks, know_a_lease_of_which_nothing_is_known) {
    leaks::lease nothing;
    EXPECT_EQ(nothing.slot, no_slot);
    EXPECT_EQ(nothing.number, 0u);
    EXPECT_EQ(nothing.limit, 0s);
}

}  // namespace
}  // namespace cenote::core

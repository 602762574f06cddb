// cenote sim: the same run as cenote-sim has, printed in words.
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.hpp"
#include "sim/run.hpp"

namespace {

namespace json = boost::json;
using testing::HasSubstr;
using testing::Not;

std::string last_line(const std::string& text) {
    std::size_t end = text.find_last_not_of('\n');
    std::size_t begin = text.find_last_of('\n', end);
    return text.substr(begin + 1, end - begin);
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> all(1);
    for (char c : text)
        if (c == '\n') all.emplace_back();
        else all.back() += c;
    return all;
}

TEST(sim_test, has_the_hash_of_the_batch_tool) {
    for (const char* seed : {"0", "7", "14", "99", "123456789"})
        for (const char* steps : {"50", "2000"}) {
            tools::output batch =
                tools::program({CENOTE_SIM, "--seed", seed, "--steps", steps}).wait();
            tools::output told = tools::cenote({"sim", "--seed", seed, "--steps", steps});
            EXPECT_EQ(told.code, 0) << told.err;
            EXPECT_EQ(last_line(told.out), last_line(batch.out)) << seed << " " << steps;
        }
}

TEST(sim_test, to_be_watched_changes_nothing) {
    class counter final : public cenote::sim::spectator {
    public:
        void see(const cenote::sim::scene& s) override {
            EXPECT_EQ(s.step, seen++);
            EXPECT_GE(s.at, before);
            before = s.at;
        }
        std::size_t seen = 0;
        cenote::core::duration before{};
    };
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        cenote::sim::plan p = cenote::sim::draw_plan(seed, 300);
        counter watching;
        cenote::sim::verdict with = cenote::sim::run(p, false, &watching);
        cenote::sim::verdict without = cenote::sim::run(p, false);
        EXPECT_EQ(with.hash, without.hash) << seed;
        EXPECT_EQ(with.seen.steps, without.seen.steps) << seed;
        EXPECT_EQ(watching.seen, with.seen.steps + 1) << seed;  // and the beginning
    }
}

TEST(sim_test, tells_a_run_in_words) {
    // How runs follow from seeds may change, and then this text does, too.
    tools::output told = tools::cenote({"sim", "--seed", "109", "--steps", "16"});
    EXPECT_THAT(told.out,
                testing::StartsWith("seed 109: max 3; 4 borrowers, 4 of them coroutines"));
    EXPECT_THAT(told.out, HasSubstr("[+..]        1 waiting  borrower 0 acquires (waits forever) "
                                    "→ in line, 1st; slot 0 opens\n"));
    EXPECT_THAT(told.out,
                HasSubstr("[#..]        0 waiting  the open of slot 0 succeeds → borrower 0 gets "
                          "slot 0\n"));
    EXPECT_THAT(told.out, HasSubstr("  16     291.000 ms  [...]        1 waiting  103 ms pass → "
                                    "borrower 1 is refused: timed_out  (paused)\n"));
    tools::output later = tools::cenote({"sim", "--seed", "7", "--steps", "100"});
    EXPECT_THAT(later.out, HasSubstr("→ slot 0 is retired: age; slot 0 closes\n"));
    EXPECT_THAT(told.out, Not(HasSubstr("\033")));
    EXPECT_EQ(told.err, "");
}

TEST(sim_test, every_seed_can_be_told) {
    for (int seed = 0; seed < 20; ++seed) {
        tools::output told = tools::cenote({"sim", "--seed", std::to_string(seed)});
        EXPECT_EQ(told.code, 0) << seed << told.err;
        EXPECT_GE(lines_of(told.out).size(), 100u) << seed;
    }
}

TEST(sim_test, tells_only_what_is_asked_for) {
    tools::output window = tools::cenote({"sim", "--seed", "7", "--from", "10", "--to", "12"});
    EXPECT_EQ(lines_of(window.out).size(), 3u + 3 + 5);
    tools::output time = tools::cenote({"sim", "--seed", "7", "--from", "44ms", "--to", "104.9ms"});
    EXPECT_THAT(time.out, HasSubstr("  44.811 ms"));
    EXPECT_THAT(time.out, HasSubstr(" 104.811 ms"));
    EXPECT_THAT(time.out, Not(HasSubstr("  15.000 ms")));
    EXPECT_THAT(time.out, Not(HasSubstr(" 624.811 ms")));

    tools::output one =
        tools::cenote({"sim", "--seed", "3", "--steps", "300", "--only", "borrower", "1"});
    for (const std::string& line : lines_of(one.out))
        if (line.find(" waiting  ") != std::string::npos) {
            EXPECT_THAT(line, HasSubstr("borrower 1")) << line;
        }
    EXPECT_THAT(one.out, HasSubstr("borrower 1 acquires"));

    tools::output summary = tools::cenote({"sim", "--seed", "7", "--summary"});
    EXPECT_THAT(summary.out, Not(HasSubstr(" waiting  ")));
}

TEST(sim_test, tells_programs_as_well) {
    tools::output said = tools::cenote({"sim", "--seed", "7", "--steps", "50", "--json"});
    EXPECT_EQ(said.code, 0);
    boost::json::error_code error;
    json::value all = json::parse(said.out, error);
    ASSERT_FALSE(error) << said.out;
    EXPECT_EQ(all.at("steps").to_number<int>(), 50);
    EXPECT_EQ(all.at("trace").as_array().size(), 51u);
    EXPECT_EQ(all.at("trace").at(1).at("who").as_string(), "borrower 0");
    EXPECT_EQ(all.at("trace").at(1).at("slots").as_string(), "[+]");
    tools::output told = tools::cenote({"sim", "--seed", "7", "--steps", "50"});
    EXPECT_EQ(all.at("hash").as_string(), last_line(told.out));
}

TEST(sim_test, replays_a_file) {
    tools::output said = tools::cenote({"sim", "--replay", CENOTE_REGRESSION});
    tools::output batch = tools::program({CENOTE_SIM, "--replay", CENOTE_REGRESSION}).wait();
    EXPECT_EQ(said.code, batch.code);
    EXPECT_EQ(last_line(said.out), last_line(batch.out));
}

// How runs follow from seeds may change; then print the run of the guide again.
TEST(sim_test, the_guide_quotes_a_real_run) {
    std::ifstream file(CENOTE_GUIDE);
    std::vector<std::string> quoted;
    std::string seed;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("seed ")) seed = line.substr(5, line.find(':') - 5);
        if (!seed.empty() && line == "```") break;
        if (!seed.empty() && !line.empty()) quoted.push_back(line);
    }
    ASSERT_GE(quoted.size(), 4u);
    std::vector<std::string> real = lines_of(tools::cenote({"sim", "--seed", seed}).out);
    for (const std::string& line : quoted) EXPECT_THAT(real, testing::Contains(line));
}

TEST(sim_test, nonsense_is_refused) {
    EXPECT_EQ(tools::cenote({"sim", "--seed", "x"}).code, 2);
    EXPECT_EQ(tools::cenote({"sim", "--from", "soon"}).code, 2);
    EXPECT_EQ(tools::cenote({"sim", "--only", "waiter", "1"}).code, 2);
    EXPECT_EQ(tools::cenote({"sim", "--replay", "/nowhere"}).code, 2);
}

}  // namespace

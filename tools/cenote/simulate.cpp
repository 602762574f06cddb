// Which steps of a simulated run are printed, and how they look.
#include "simulate.hpp"

#include <algorithm>
#include <array>
#include <boost/json/value.hpp>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>

#include <CLI/CLI.hpp>

#include "checks.hpp"
#include "help.hpp"
#include "sim/recording.hpp"
#include "sim/run.hpp"
#include "terminal.hpp"
#include "trace.hpp"

namespace simulation {

namespace json = boost::json;
using namespace cenote;
using sim::actor;
using sim::scene;
using terminal::tint;

namespace {

/// A border of the window: by number or by time.
struct border {
    bool is_time = false;
    std::uint64_t step = 0;
    core::duration at{};
};

border parse_border(const std::string& text, const char* option) {
    border b;
    auto end = std::from_chars(text.data(), text.data() + text.size(), b.step);
    if (end.ec == std::errc() && end.ptr == text.data() + text.size()) return b;
    try {
        b.is_time = true;
        b.at = command::parse_duration(text);
    } catch (const std::invalid_argument&) {
        throw command::wrong_arguments(std::string(option) + " " + text +
                                           " is neither a step nor a time",
                                       "Use a step such as 120, or a time such as 250ms.");
    }
    return b;
}

/// "borrower" and "3".
std::pair<std::string, std::size_t> parse_one(const std::string& what, const std::string& digits) {
    std::size_t number = 0;
    auto end = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    bool known = what == "borrower" || what == "slot" || what == "gatherer";
    if (!known || end.ec != std::errc() || end.ptr != digits.data() + digits.size())
        throw command::wrong_arguments(
            "--only must be borrower, gatherer or slot and a number, not '" + what + " " + digits +
                "'",
            "Example: --only borrower 3");
    return {what, number};
}

/// Which steps are printed.
class window {
public:
    explicit window(const settings& how) {
        if (!how.from.empty()) from_ = parse_border(how.from, "--from");
        if (!how.to.empty()) to_ = parse_border(how.to, "--to");
        for (std::size_t i = 0; i + 1 < how.only.size(); i += 2)
            only_.push_back(parse_one(how.only[i], how.only[i + 1]));
    }

    bool shows(const scene& s) const {
        bool early = from_.is_time ? s.at < from_.at : s.step < from_.step;
        bool late = to_.is_time ? s.at > to_.at : s.step > to_.step;
        if (early || late) return false;
        return only_.empty() || std::any_of(only_.begin(), only_.end(), [&](const auto& one) {
                   return concerns(s, one.first, one.second);
               });
    }

private:
    static bool concerns(const scene& s, const std::string& what, std::size_t number) {
        if (what == "slot") {
            return s.slot == number ||
                   std::any_of(s.followed.begin(), s.followed.end(),
                               [&](const sim::consequence& h) { return h.slot == number; });
        }
        auto is_it = [&](const actor& who) {
            return who.what != actor::kind::none && who.number == number &&
                   (who.what == actor::kind::gatherer) == (what == "gatherer");
        };
        return is_it(s.who) || std::any_of(s.followed.begin(), s.followed.end(),
                                           [&](const sim::consequence& h) { return is_it(h.who); });
    }

    std::vector<std::pair<std::string, std::size_t>> only_;
    border from_;
    border to_{.is_time = false, .step = std::numeric_limits<std::uint64_t>::max(), .at = {}};
};

tint tint_of(core::slot_state state) {
    switch (state) {
        case core::slot_state::leased: return tint::green;
        case core::slot_state::idle: return tint::blue;
        case core::slot_state::vacant: return tint::dim;
        case core::slot_state::closing: return tint::red;
        default: return tint::yellow;
    }
}

std::string joined(const std::vector<std::string>& all) {
    std::string text;
    for (const std::string& one : all) text += (text.empty() ? "" : "; ") + one;
    return text;
}

/// Prints each step as a line, at once.
class narrator final : public sim::spectator {
public:
    narrator(const settings& how, std::size_t places)
        : how_(how), window_(how), paint_(how.look.colors), places_(places) {}

    void see(const scene& s) override {
        if (how_.summary || !window_.shows(s)) return;
        std::string line = pad_left(time_of(s), 13) + "  " + picture(s) + " " +
                           pad_left(std::to_string(s.waiting), 3) + " waiting  ";
        std::string text = decision_in_words(s);
        std::string followed = joined(followed_in_words(s));
        if (s.passed_over) line += paint_(tint::dim, text + " (" + followed + ")");
        else line += text + (followed.empty() ? "" : " → " + followed);
        if (s.paused) line += paint_(tint::yellow, "  (paused)");
        if (s.circuit != breaker_state::active)
            line += paint_(tint::red, std::string("  (breaker ") + to_string(s.circuit) + ")");
        std::printf("%5zu  %s\n", s.step, line.c_str());
        command::check_output();
    }

private:
    static std::string pad_left(const std::string& text, std::size_t columns) {
        return std::string(columns - std::min(columns, text.size()), ' ') + text;
    }
    std::string picture(const scene& s) const {
        std::string all = "[";
        for (core::slot_state each : s.slots)
            all += paint_(tint_of(each), std::string(1, sign_of(each)));
        return all + "]" + std::string(places_ - std::min(places_, s.slots.size()), ' ');
    }

    const settings& how_;
    window window_;
    terminal::palette paint_;
    std::size_t places_;
};

/// Collects the steps for JSON.
class recorder final : public sim::spectator {
public:
    explicit recorder(const settings& how) : how_(how), window_(how) {}

    void see(const scene& s) override {
        if (how_.summary || !window_.shows(s)) return;
        json::array followed;
        for (const std::string& one : followed_in_words(s)) followed.emplace_back(one);
        json::object step{{"step", s.step},
                          {"time_seconds", std::chrono::duration<double>(s.at).count()},
                          {"what", decision_in_words(s)},
                          {"passed_over", s.passed_over},
                          {"followed", followed},
                          {"slots", picture_of(s)},
                          {"waiting", s.waiting},
                          {"max", s.max},
                          {"paused", s.paused},
                          {"closed", s.closed},
                          {"breaker", to_string(s.circuit)}};
        step["who"] =
            s.who.what == actor::kind::none ? json::value(nullptr) : json::value(name_of(s.who));
        trace_.push_back(step);
    }

    json::array take() { return std::move(trace_); }

private:
    const settings& how_;
    window window_;
    json::array trace_;
};

std::string text_of(std::uint64_t hash) {
    std::array<char, 17> text{};
    std::snprintf(text.data(), text.size(), "%016" PRIx64, hash);
    return text.data();
}

sim::recording read_recording(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file)
        throw command::wrong_arguments("cannot read the file " + path + ": " +
                                       std::strerror(errno));
    try {
        return sim::from_text(text.str());
    } catch (const std::invalid_argument& e) {
        throw command::wrong_arguments(path + ": " + e.what());
    }
}

json::object to_json(const sim::plan& p, const sim::verdict& v) {
    return {{"seed", p.seed},
            {"max", p.settings.max},
            {"borrowers", p.borrowers},
            {"coroutines", p.coroutines},
            {"gatherers", p.gatherers},
            {"fault_percent", p.fault_percent},
            {"steps", v.seen.steps},
            {"grants", v.seen.grants},
            {"refusals", v.seen.refusals},
            {"cancels", v.seen.cancels},
            {"destroyed", v.seen.destroyed},
            {"faults", v.seen.faults},
            {"failed", v.failed},
            {"finding", v.what},
            {"hash", text_of(v.hash)}};
}

void print_head(const sim::plan& p) {
    std::printf("seed %" PRIu64
                ": max %zu; %zu %s, %zu of them coroutines; %zu %s; "
                "%" PRIu64 " %% of all calls fail\n%s\n\n",
                p.seed, p.settings.max, p.borrowers, p.borrowers == 1 ? "borrower" : "borrowers",
                p.coroutines, p.gatherers, p.gatherers == 1 ? "gatherer" : "gatherers",
                p.fault_percent, legend().c_str());
}

void print_summary(const sim::verdict& v, const terminal::palette& paint) {
    std::printf("\n%" PRIu64 " steps: %" PRIu64 " grants, %" PRIu64 " refusals, %" PRIu64
                " cancels, %" PRIu64 " destroyed coroutines, %" PRIu64 " faults\n",
                v.seen.steps, v.seen.grants, v.seen.refusals, v.seen.cancels, v.seen.destroyed,
                v.seen.faults);
    if (v.failed) std::printf("%s %s\n", paint(tint::red, "bug found:").c_str(), v.what.c_str());
    else
        std::printf(
            "%s in each step the pool decided as the reference model does, and its invariants "
            "held\n",
            paint(tint::green, "ok:").c_str());
    std::printf("%s\n", text_of(v.hash).c_str());
}

}  // namespace

CLI::App* add_to(CLI::App& app, settings& into) {
    CLI::App* word = app.add_subcommand(
        "sim",
        "Prints a simulated run of a pool step by step: acquires, releases, failures, and what the "
        "pool decides.");
    word->add_option("--seed", into.seed,
                     "Selects the run: the same seed gives the same run everywhere")
        ->option_text("N=0");
    word->add_option("--steps", into.steps, "Number of steps of the run")
        ->check(command::from_to(1, 100'000'000))
        ->option_text("N=200");
    word->add_option(
            "--replay", into.replay,
            "Replay the steps in this file, which cenote-sim --save has written, instead of a seed")
        ->option_text("FILE");
    word->add_option("--from", into.from, "Print the steps from this one or this time on")
        ->option_text("STEP|TIME");
    word->add_option("--to", into.to, "Print the steps up to this one or this time")
        ->option_text("STEP|TIME");
    word->add_option("--only", into.only,
                     "Print only the steps of this borrower, gatherer or slot, such as: --only "
                     "borrower 3. May be given several times")
        ->type_size(2)
        ->expected(1, CLI::detail::expected_max_vector_size)
        ->allow_extra_args(false)
        ->option_text("KIND NUMBER");
    word->add_flag("--summary", into.summary, "Print only the result");
    command::add_look(*word, into.look);
    command::add_footer(
        *word,
        "Examples:\n"
        "  cenote sim --seed 7\n"
        "  cenote sim --seed 7 --from 1s --to 2s --only borrower 3\n"
        "  cenote sim --seed 7 --steps 5000 --summary\n"
        "  cenote sim --replay failure.txt\n"
        "\n"
        "The last line is the hash of the run. It is equal on all machines, and equal to the hash "
        "that cenote-sim prints for the same --seed and --steps.\n",
        {{command::fine, "the run is correct"},
         {command::failed, "the run found a bug in the pool"},
         {command::wrong_usage, "invalid arguments; nothing was done"},
         {command::output_closed, "the program that reads the output has ended"}});
    return word;
}

int run(const settings& how) {
    sim::recording r;
    if (how.replay.empty()) r.from = sim::draw_plan(how.seed, how.steps);
    else r = read_recording(how.replay);
    auto carry_out = [&](sim::spectator& watching) {
        return how.replay.empty() ? sim::run(r.from, false, &watching)
                                  : sim::replay(r.from, r.decisions, &watching);
    };
    sim::verdict v;
    if (how.look.json) {
        recorder steps(how);
        v = carry_out(steps);
        json::object all = to_json(r.from, v);
        all["trace"] = steps.take();
        command::print_json(all);
    } else {
        // A resize makes it eight at most.
        narrator steps(how, std::max<std::size_t>(r.from.settings.max, 8));
        print_head(r.from);
        v = carry_out(steps);
        print_summary(v, terminal::palette(how.look.colors));
    }
    return v.failed ? command::failed : command::fine;
}

}  // namespace simulation

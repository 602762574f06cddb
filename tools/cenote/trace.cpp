// The words for what happens in a simulated world.
#include "trace.hpp"

#include <array>
#include <cstdio>

#include "command.hpp"
#include <cenote/error.hpp>

namespace simulation {

using namespace cenote;
using command::in_words;
using sim::actor;
using sim::consequence;
using sim::scene;
using kind = sim::decision::kind;

namespace {

std::string slot_name(core::slot_id id) { return "slot " + std::to_string(id); }

const char* noun_of(core::verb which) {
    switch (which) {
        case core::verb::open: return "open";
        case core::verb::probe: return "probe";
        case core::verb::reset: return "reset";
        case core::verb::close: break;
    }
    return "close";
}

/// The name in the enum; message() describes the pool as a whole.
const char* word_of(errc error) {
    switch (error) {
        case errc::timed_out: return "timed_out";
        case errc::closed: return "closed";
        case errc::unavailable: return "unavailable";
        case errc::line_full: return "line_full";
        case errc::shed: return "shed";
        case errc::canceled: return "canceled";
        case errc::open_failed: return "open_failed";
        case errc::deadlock: break;
    }
    return "deadlock";
}

std::string ordinal(std::size_t number) {
    const char* ending = "th";
    if (number % 100 < 11 || number % 100 > 13)
        ending = number % 10 == 1 ? "st" : number % 10 == 2 ? "nd" : number % 10 == 3 ? "rd" : "th";
    return std::to_string(number) + ending;
}

/// As the simulator encodes it: 0 is no timeout, otherwise the milliseconds plus 1.
std::string patience(std::uint32_t b) {
    if (b == 0) return " (waits forever)";
    if (b == 1) return " (does not wait)";
    return " (waits at most " + std::to_string(b - 1) + " ms)";
}

std::string release_in_words(const std::string& who, const std::string& slot, std::uint32_t how) {
    switch (how % 5) {
        case 0: return who + " releases " + slot;
        case 1: return who + " releases " + slot + ", dirty";
        case 2: return who + " discards " + slot;
        case 3: return who + " releases " + slot + ", and before_release rejects it";
        default: return who + " discards " + slot + " because of an error";
    }
}

std::string outcome_in_words(std::uint32_t how) {
    switch (how % 3) {
        case 0: return "succeeds";
        case 1: return "fails";
        default: return "fails permanently";
    }
}

std::string borrower_in_words(const scene& s) {
    std::string who = name_of(s.who);
    std::string slot = s.slot == core::no_slot ? "nothing" : slot_name(s.slot);
    switch (s.what.what) {
        case kind::acquire: return who + " acquires" + patience(s.what.b);
        case kind::demand: return who + " acquires on a thread that must not wait";
        case kind::attempt: return who + " tries to acquire";
        case kind::cancel: return who + " cancels";
        case kind::release: return release_in_words(who, slot, s.what.b);
        case kind::detach: return who + " takes " + slot + " out of the pool";
        case kind::reject: return "before_acquire rejects " + slot + " for " + who;
        case kind::hand_on: return who + " passes " + slot + " to another thread";
        case kind::stop: return who + " gets a stop request before it acquires";
        case kind::resume:
            return who + " is resumed with " + (s.slot == core::no_slot ? "a refusal" : slot);
        case kind::destroy: return who + " is destroyed";
        case kind::look: return "before_acquire begins to check " + slot + " for " + who;
        default: break;
    }
    std::string verdict = s.what.b == 0 ? "accepts " : "rejects ";
    return "before_acquire " + verdict + slot + " for " + who;
}

std::string gatherer_in_words(const scene& s) {
    std::string who = name_of(s.who);
    if (s.what.what == kind::call_off) return who + " cancels";
    if (s.what.what == kind::scatter) return who + " releases all of them";
    std::string wait = s.what.b % 5 == 0 ? " (waits forever)"
                                         : " (waits at most " + std::to_string(s.what.b) + " ms)";
    return who + " acquires " + std::to_string(s.count) + " at once" + wait;
}

std::string world_in_words(const scene& s) {
    std::string call = s.slot == core::no_slot
                           ? "a call"
                           : std::string("the ") + noun_of(s.which) + " of " + slot_name(s.slot);
    switch (s.what.what) {
        case kind::crowd: return "borrowers " + std::to_string(s.what.a) + " and above acquire";
        case kind::storm:
            return "waiting borrowers " + std::to_string(s.what.a) + " and above " +
                   (s.what.b % 2 != 0 ? "are destroyed or cancel" : "cancel");
        case kind::answer: return call + " " + outcome_in_words(s.what.b);
        case kind::start: return call + " starts";
        case kind::late: return call + ", which was abandoned, ends";
        case kind::pass:
            return in_words(s.passed) + " pass" + (s.unnoticed ? ", and the timer is late" : "");
        case kind::retire_all: return "retire_all: all open resources are to be closed";
        case kind::suspect_all: return "suspect_all: all open resources are to be probed";
        case kind::resize: return "resize to " + std::to_string(s.max);
        case kind::pause: return "pause";
        case kind::unpause: return "resume";
        case kind::suspend: return "suspend_maintenance";
        case kind::restore: return "resume_maintenance";
        case kind::judge: return "the breaker's strategy evaluates the results so far";
        case kind::breaker: return std::string("the breaker is set to ") + to_string(s.circuit);
        default: break;
    }
    return "close";
}

/// `own`: of the actor of this step, whose name is already printed.
std::string in_words(const consequence& h, bool own) {
    std::string slot = slot_name(h.slot);
    std::string who = own ? "" : name_of(h.who) + " ";
    switch (h.what) {
        case consequence::kind::waits:
            return who + (own ? "" : "is ") + "in line, " + ordinal(h.place);
        case consequence::kind::granted: return who + "gets " + slot;
        case consequence::kind::refused:
            return who + (own ? "" : "is ") + "refused: " + word_of(h.error);
        case consequence::kind::nothing: return "nothing is free";
        case consequence::kind::calls:
            return slot + (h.which == core::verb::open    ? " opens"
                           : h.which == core::verb::probe ? " is probed"
                           : h.which == core::verb::reset ? " is reset"
                                                          : " closes");
        case consequence::kind::given_up:
            return std::string("the ") + noun_of(h.which) + " of " + slot + " is abandoned";
        case consequence::kind::makes_way:
            return "the open of " + slot + " is abandoned in favor of another";
        case consequence::kind::retired: return slot + " is retired: " + to_string(h.why);
        case consequence::kind::circuit: break;
    }
    return std::string("the breaker is ") + to_string(h.breaker);
}

}  // namespace

std::string name_of(const actor& who) {
    return (who.what == actor::kind::gatherer ? "gatherer " : "borrower ") +
           std::to_string(who.number);
}

std::string decision_in_words(const scene& s) {
    if (s.step == 0) return "the pool is made";
    if (s.what.what <= kind::admit) return borrower_in_words(s);
    if (s.what.what >= kind::gather && s.what.what <= kind::scatter) return gatherer_in_words(s);
    return world_in_words(s);
}

std::vector<std::string> followed_in_words(const scene& s) {
    std::vector<std::string> all;
    if (s.passed_over) all.emplace_back("skipped");
    for (const consequence& h : s.followed) {
        bool own = s.who.what != actor::kind::none && h.who == s.who;
        all.push_back(in_words(h, own));
    }
    return all;
}

char sign_of(core::slot_state state) {
    switch (state) {
        case core::slot_state::opening: return '+';
        case core::slot_state::idle: return 'o';
        case core::slot_state::leased: return '#';
        case core::slot_state::probing: return '?';
        case core::slot_state::resetting: return '~';
        case core::slot_state::closing: return 'x';
        case core::slot_state::vacant: break;
    }
    return '.';
}

std::string picture_of(const scene& s) {
    std::string all = "[";
    for (core::slot_state each : s.slots) all += sign_of(each);
    return all + "]";
}

std::string legend() {
    return "# leased  o idle  + opening  ? probing  ~ resetting  x closing  . vacant";
}

std::string time_of(const scene& s) {
    std::array<char, 48> text{};
    std::snprintf(text.data(), text.size(), "%.3f ms",
                  std::chrono::duration<double, std::milli>(s.at).count());
    return text.data();
}

}  // namespace simulation

// A step of a simulated run in words.
#pragma once

#include <string>
#include <vector>

#include "sim/spectator.hpp"

namespace simulation {

/// What was done, and by whom.
std::string decision_in_words(const cenote::sim::scene& s);
/// What came of it, one thing each. What concerns who did it is said without its name.
std::vector<std::string> followed_in_words(const cenote::sim::scene& s);

/// "borrower 3", "gatherer 1".
std::string name_of(const cenote::sim::actor& who);

/// A slot as one character: # leased, o idle, + opening, ? probing, ~ resetting, x closing, .
/// vacant
char sign_of(cenote::core::slot_state state);
/// All of them in brackets.
std::string picture_of(const cenote::sim::scene& s);
/// What the signs mean, in one line.
std::string legend();

/// Since the beginning: "12.340 ms".
std::string time_of(const cenote::sim::scene& s);

}  // namespace simulation

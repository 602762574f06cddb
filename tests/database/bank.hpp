// Money that moves while connections are killed and coroutines canceled: none may get lost, none
// may appear.
//
// A thousand customers share ten connections of one database. Each transfer writes a row into a
// ledger in its transaction. At the end the ledger must agree with what each customer was told.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "cenote/database.hpp"

namespace cenote::bank {

using dice = std::minstd_rand;

/// The database with the accounts.
struct place {
    std::string url;
    /// A statement that changes the session.
    const char* setting = "";
    /// Ends one connection of other users or all of them, and returns how many. Empty: not
    /// possible.
    std::function<std::uint64_t(database& with, bool all, dice& d)> kill = {};
    /// How many sessions of the server are executing something.
    std::function<int()> busy;
};

/// Runs the customers for CENOTE_BANK_SECONDS (3) with the random numbers of CENOTE_BANK_SEED, and
/// audits the accounts. A failure prints how to repeat the run: with the same random numbers, but
/// not the same timing of the servers.
void do_business(const place& at);

}  // namespace cenote::bank

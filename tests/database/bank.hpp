// Money that moves while connections are killed and coroutines cancelled: none may get lost, none
// may appear.
//
// A thousand customers share ten connections of one database. Each transfer leaves a row in a
// ledger, in the same transaction: so at the end everybody can be asked whether what they were told
// is what has happened.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>

#include "cenote/database.hpp"

namespace cenote::bank {

using dice = std::minstd_rand;

/// Where the bank has its accounts.
struct place {
    std::string url;
    /// What a session carries that is nobody else's business.
    const char* setting = "";
    /// Ends one of the others' connections or all of them, and says how many. Empty: it has none.
    std::function<std::uint64_t(database& with, bool all, dice& d)> kill = {};
    /// How many sessions the server knows that are in the middle of something.
    std::function<int()> busy;
};

/// Lets them do business for CENOTE_BANK_SECONDS (3), by the dice of CENOTE_BANK_SEED, and looks at
/// the books. A failure says how to do so again: the dice are the same then, the servers are not.
void do_business(const place& at);

}  // namespace cenote::bank

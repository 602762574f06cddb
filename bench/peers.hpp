// The pools of other C++ libraries, if they are installed.
#pragma once

#include <string>
#include <vector>

#include "peers/semaphore_pool.hpp"
#include "subjects.hpp"
#include "textbook_pool.hpp"
#ifdef CENOTE_PEER_SOCI
#include "peers/soci_pool.hpp"
#endif
#ifdef CENOTE_PEER_POCO
#include "peers/poco_pool.hpp"
#endif
#ifdef CENOTE_PEER_TBB
#include "peers/tbb_pool.hpp"
#endif
#ifdef CENOTE_PEER_MOODYCAMEL
#include "peers/moodycamel_pool.hpp"
#endif

namespace cenote::bench {

// Names of the peers, in reports and goals.
inline constexpr const char* textbook = "textbook";
inline constexpr const char* semaphore = "semaphore";
inline constexpr const char* soci_ = "SOCI";
inline constexpr const char* poco = "POCO";
inline constexpr const char* tbb_ = "TBB";
inline constexpr const char* moodycamel_ = "moodycamel";

/// Calls `visit.operator()<Pool>(name)` for each available peer.
template <class Visit>
void for_each_peer(Visit visit) {
    visit.template operator()<textbook_pool<padded_resource>>(textbook);
    visit.template operator()<semaphore_pool>(semaphore);
#ifdef CENOTE_PEER_SOCI
    visit.template operator()<soci_pool>(soci_);
#endif
#ifdef CENOTE_PEER_POCO
    visit.template operator()<poco_pool>(poco);
#endif
#ifdef CENOTE_PEER_TBB
    visit.template operator()<tbb_pool>(tbb_);
#endif
#ifdef CENOTE_PEER_MOODYCAMEL
    visit.template operator()<moodycamel_pool>(moodycamel_);
#endif
}

/// The peers that were not installed when this program was built.
inline std::vector<std::string> missing_peers() {
    std::vector<std::string> missing{soci_, poco, tbb_, moodycamel_};
    for_each_peer([&]<class Pool>(const char* name) { std::erase(missing, name); });
    return missing;
}

}  // namespace cenote::bench

// The pools for threads of other C++ libraries, as far as they are installed.
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

// Who they are, for people and in goals.
inline constexpr const char* textbook = "textbook";
inline constexpr const char* semaphore = "semaphore";
inline constexpr const char* soci_ = "SOCI";
inline constexpr const char* poco = "POCO";
inline constexpr const char* tbb_ = "TBB";
inline constexpr const char* moodycamel_ = "moodycamel";

/// Calls `meet.operator()<Pool>(name)` for each that is there.
template <class Meet>
void meet_peers(Meet meet) {
    meet.template operator()<textbook_pool<lone_thing>>(textbook);
    meet.template operator()<semaphore_pool>(semaphore);
#ifdef CENOTE_PEER_SOCI
    meet.template operator()<soci_pool>(soci_);
#endif
#ifdef CENOTE_PEER_POCO
    meet.template operator()<poco_pool>(poco);
#endif
#ifdef CENOTE_PEER_TBB
    meet.template operator()<tbb_pool>(tbb_);
#endif
#ifdef CENOTE_PEER_MOODYCAMEL
    meet.template operator()<moodycamel_pool>(moodycamel_);
#endif
}

/// Those that this program was built without.
inline std::vector<std::string> missing_peers() {
    std::vector<std::string> missing{soci_, poco, tbb_, moodycamel_};
    meet_peers([&]<class Pool>(const char* name) { std::erase(missing, name); });
    return missing;
}

}  // namespace cenote::bench

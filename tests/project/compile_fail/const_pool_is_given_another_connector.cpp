// expect: discards qualifiers|not viable
#include <cenote/pool.hpp>

void a_const_pool_keeps_its_connector([[maybe_unused]] cenote::pool<int>& mine,
                                      [[maybe_unused]] const cenote::pool<int>& theirs) {
#ifdef CENOTE_CONTROL
    mine.replace_connector([] { return 1; });
#else
    theirs.replace_connector([] { return 1; });
#endif
}

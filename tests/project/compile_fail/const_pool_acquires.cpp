// expect: discards qualifiers|not marked const|no matching member function|const qualifier
#include <cenote/pool.hpp>

#ifdef CENOTE_CONTROL
auto looking_is_all_a_const_pool_does(const cenote::pool<int>& pool) { return pool.stats(); }
#else
auto looking_is_all_a_const_pool_does(const cenote::pool<int>& pool) { return pool.acquire(); }
#endif

// expect: discards qualifiers|not marked const|no matching member function|const qualifier
#include <cenote/pool.hpp>

#ifdef CENOTE_CONTROL
auto a_const_pool_cannot_acquire(const cenote::pool<int>& pool) { return pool.stats(); }
#else
auto a_const_pool_cannot_acquire(const cenote::pool<int>& pool) { return pool.acquire(); }
#endif

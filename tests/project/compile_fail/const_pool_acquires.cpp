// expect within 2: with a pool that is not const
#include <cenote/pool.hpp>

#ifdef CENOTE_CONTROL
auto a_const_pool_cannot_acquire(const cenote::pool<int>& pool) { return pool.stats(); }
#else
auto a_const_pool_cannot_acquire(const cenote::pool<int>& pool) { return pool.acquire(); }
#endif

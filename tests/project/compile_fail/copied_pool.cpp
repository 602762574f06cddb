// expect: deleted
#include <utility>

#include <cenote/pool.hpp>

void a_pool_cannot_be_copied(cenote::pool<int>& pool) {
#ifdef CENOTE_CONTROL
    auto& same = pool;
#else
    auto same = pool;
#endif
    (void)same.stats();
}

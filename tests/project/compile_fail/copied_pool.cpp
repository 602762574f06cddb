// expect: deleted
#include <utility>

#include <cenote/pool.hpp>

void one_pool_is_one_pool(cenote::pool<int>& pool) {
#ifdef CENOTE_CONTROL
    auto& same = pool;
#else
    auto same = pool;
#endif
    (void)same.stats();
}

// expect: nodiscard
#include <cenote/pool.hpp>

#pragma GCC diagnostic error "-Wunused-result"

void a_lease_that_ends_at_once(cenote::pool<int>& pool) {
#ifdef CENOTE_CONTROL
    auto lease = pool.acquire();
#else
    pool.acquire();
#endif
}

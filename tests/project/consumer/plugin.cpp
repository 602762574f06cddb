// A shared library with a pool, like a plug-in.
#include <cenote/pool.hpp>

extern "C" int leased_by_plugin() {
    cenote::pool<int> pool{[] { return 1; }};
    auto lease = pool.acquire();
    return static_cast<int>(pool.stats().leased);
}

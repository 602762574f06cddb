// A shared library with a pool in it, as a plug-in would have.
#include <cenote/pool.hpp>

extern "C" int leased_by_plugin() {
    cenote::pool<int> pool{[] { return 1; }};
    auto held = pool.acquire();
    return static_cast<int>(pool.stats().leased);
}

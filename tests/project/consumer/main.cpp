// The smallest program that uses cenote from outside.
#include <cenote/pool.hpp>

int main() {
    cenote::pool<int> pool{[] { return 42; }};
    auto lease = pool.acquire();
    return *lease == 42 ? 0 : 1;
}

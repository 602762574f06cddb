// A minimal program that uses the installed library.
#include <cenote/pool.hpp>

int main() {
    cenote::pool<int> pool{[] { return 42; }};
    auto lease = pool.acquire();
    return *lease == 42 ? 0 : 1;
}

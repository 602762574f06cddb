// cenote-demo: the main job, until there are connectors: many threads share a few costly things.
#include <cenote/pool.hpp>
#include <cstdio>

int main() {
    cenote::pool pool{[] { return 42; }};
    std::printf("%d\n", *pool.acquire());
}

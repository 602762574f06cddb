// A minimal program with a dashboard.
#include <cenote/dashboard.hpp>
#include <cenote/pool.hpp>

int main() {
    cenote::dashboard board;
    cenote::pool<int> pool{[] { return 42; }, {.observers = {board.observer()}}};
    auto shown = board.watch(pool.control());
    return board.port() != 0 && *pool.acquire() == 42 ? 0 : 1;
}

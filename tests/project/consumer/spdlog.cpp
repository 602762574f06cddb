// A minimal program with a pool that logs.
#include <memory>

#include <cenote/pool.hpp>
#include <cenote/spdlog.hpp>

int main() {
    auto log = std::make_shared<cenote::spdlog_observer>();
    cenote::pool<int> pool{[] { return 42; }, {.observers = {log}}};
    auto lease = pool.acquire();
    return *lease == 42 ? 0 : 1;
}

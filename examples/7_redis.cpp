// 7: Redis: commands, a pipeline, and a transaction that detects concurrent changes.
// Usage: 7_redis redis://:password@host
#include <cstdio>
#include <string>

#include <cenote/pool.hpp>
#include <cenote/redis.hpp>

namespace {

using cenote::redis::connection;
using cenote::redis::pipeline;

/// Adds to a balance. False: another client has changed it meanwhile.
bool deposit(connection& c, const std::string& account, int amount) {
    c.command("WATCH", account);
    auto balance = c.command("GET", account);
    int now = balance.is_nil() ? 0 : std::stoi(balance.text());
    pipeline change;
    change.add("SET", account, now + amount);
    return c.transaction(change).has_value();
}  // after an exception behind WATCH, the pool resets the session

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return std::puts("usage: 7_redis redis://:password@host"), 0;
    cenote::pool<connection> pool{cenote::redis::connector{argv[1]}, {.name = "cache", .max = 4}};
    auto lease = pool.acquire();
    lease->command("DEL", "cenote:example");
    for (int i = 0; i < 3; ++i)
        while (!deposit(*lease, "cenote:example", 14)) {
        }
    pipeline several;
    several.add("GET", "cenote:example");
    several.add("DEL", "cenote:example");
    auto replies = lease->execute(several);  // one round trip
    std::printf("the balance was %s\n", replies[0].text().c_str());
}

// A minimal program with a pool of SQLite connections.
#include <cenote/pool.hpp>
#include <cenote/sqlite.hpp>

int main() {
    cenote::pool<cenote::sqlite::connection> pool{
        cenote::sqlite::connector{"sqlite:consumer?mode=memory"}, {.max = 2}};
    return pool.acquire()->execute("SELECT ? + ?", 40, 2).scalar<int>() == 42 ? 0 : 1;
}

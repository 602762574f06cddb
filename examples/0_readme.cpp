// 0: the program of the README. Usage: 0_readme postgresql://user:password@host/database
#include <cstdio>

#include <cenote/pool.hpp>
#include <cenote/postgres.hpp>

int main(int argc, char** argv) {
    const char* url = argc > 1 ? argv[1] : "postgresql://app:secret@localhost/orders";
    cenote::pool<cenote::postgres::connection> pool{cenote::postgres::connector{url}, {.max = 16}};

    auto lease = pool.acquire();  // waits for a free connection, for at most 5 s
    auto rows = lease->execute("SELECT n, n * n FROM generate_series(1, $1) AS n", 3);
    for (auto [n, square] : rows.as<int, int>()) std::printf("%d squared is %d\n", n, square);
}  // the lease returns its connection, and the pool closes it

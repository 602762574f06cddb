// 1: anything that is expensive to create can be pooled; a function that creates it is enough.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <vector>

#include <cenote/pool.hpp>

namespace {

/// Expensive to create, and not thread-safe: it counts its queries.
class prime_table {
public:
    explicit prime_table(std::size_t size) : composite_(size, false) {
        for (std::size_t n = 2; n * n < size; ++n)
            if (!composite_[n])
                for (std::size_t m = n * n; m < size; m += n) composite_[m] = true;
    }

    std::size_t count_below(std::size_t limit) {
        ++queries_;
        std::size_t count = 0;
        for (std::size_t n = 2; n < limit; ++n)
            if (!composite_[n]) ++count;
        return count;
    }

    int queries() const { return queries_; }

private:
    std::vector<bool> composite_;
    int queries_ = 0;
};

}  // namespace

int main() {
    std::atomic<int> made{0};
    auto make = [&] {
        ++made;
        return prime_table{1'000'000};
    };

    cenote::pool<prime_table> pool{make, {.name = "primes", .max = 2}};

    for (std::size_t limit : {100u, 10'000u, 1'000'000u}) {
        auto table = pool.acquire();  // the first acquire creates a table, the others reuse it
        std::printf("%zu primes below %zu\n", table->count_below(limit), limit);
    }  // the lease ends and releases the table

    // Acquire, call and release in one expression.
    int queries = pool.with([](prime_table& table) { return table.queries(); });
    std::printf("created %d table, ran %d queries\n", made.load(), queries);

    // Two leases at once need two tables. There is only one so far, and try_acquire never waits: it
    // returns an empty lease, and starts to open a second table for the next caller.
    auto first = pool.acquire();
    auto second = pool.try_acquire();
    std::printf("a second at once: %s\n", second ? "yes" : "not yet");
    // On a very busy machine there may already be two tables; the result is the same.
    return first->count_below(100) == 25 ? 0 : 1;
}

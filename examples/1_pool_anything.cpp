// 1: anything that is costly to make can be pooled; a function that makes it is enough.
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <vector>

#include <cenote/pool.hpp>

namespace {

/// Costly to make, and good for one user at a time: it remembers what it was asked.
class prime_table {
public:
    explicit prime_table(std::size_t size) : composite_(size, false) {
        for (std::size_t n = 2; n * n < size; ++n)
            if (!composite_[n])
                for (std::size_t m = n * n; m < size; m += n) composite_[m] = true;
    }

    std::size_t count_below(std::size_t limit) {
        ++questions_;
        std::size_t count = 0;
        for (std::size_t n = 2; n < limit; ++n)
            if (!composite_[n]) ++count;
        return count;
    }

    int questions() const { return questions_; }

private:
    std::vector<bool> composite_;
    int questions_ = 0;
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
        auto table = pool.acquire();  // the first acquire has it made, the others reuse it
        std::printf("%zu primes below %zu\n", table->count_below(limit), limit);
    }  // the lease ends, the table goes back

    // The same in one expression: acquire, call, give back.
    int questions = pool.with([](prime_table& table) { return table.questions(); });
    std::printf("made %d table, asked it %d questions\n", made.load(), questions);

    // Two leases at once need two tables. There is only one so far, and try_acquire never waits: it
    // comes back empty, and has a second one made for whoever comes next.
    auto first = pool.acquire();
    auto second = pool.try_acquire();
    std::printf("a second at once: %s\n", second ? "yes" : "not yet");
    // On a machine that is busy for seconds there may be two tables by now; the answer is the same.
    return first->count_below(100) == 25 ? 0 : 1;
}

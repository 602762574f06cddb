// Leases that end too early, and functions that `with` cannot call.
#include <string>

#include <cenote/pool.hpp>

#pragma GCC diagnostic error "-Wunused-result"
#ifdef __clang__
#pragma clang diagnostic error "-Wdangling"
#endif

void use(int&);

void misuse(cenote::pool<int>& pool) {
#if CENOTE_MISTAKE == 1  // expect within 2: the lease ends at once: give it a name
    pool.acquire();
#elif CENOTE_MISTAKE == 2  // expect within 2: with needs a function that accepts a T&
    pool.with([] {});
#elif CENOTE_MISTAKE == 3  // expect within 2: with needs a function that accepts a T&
    pool.with([](std::string&) {});
#elif CENOTE_MISTAKE == 4  // expect within 2: with needs a function that accepts a T&
    pool.with([](cenote::lease<int>) {});
#elif CENOTE_MISTAKE == 5  // expect clang within 2: temporary
    auto& number = *pool.acquire();
    use(number);
#elif CENOTE_MISTAKE == 6  // expect clang within 2: temporary|end of the full-expression
    auto* number = pool.acquire().get();
    use(*number);
#else
    auto lease = pool.acquire();
    use(*pool.acquire());
    int copy = *pool.acquire();
    pool.with([](int& number) { use(number); });
    pool.with(use);
    use(copy);
#endif
}

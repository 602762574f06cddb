// Arguments of a pool that are no connectors of its type.
#include <memory>
#include <utility>

#include <cenote/pool.hpp>

struct session {};
struct connector {
    session open() { return {}; }
};
struct other {
    session connect() { return {}; }
};

void misuse() {
    auto owner = std::make_unique<int>(1);
    auto open = [owner = std::move(owner)] { return static_cast<void>(owner), session(); };
#if CENOTE_MISTAKE == 1  // expect within 9: a connector needs open\(\) without parameters
    cenote::pool<session> pool{other{}};
#elif CENOTE_MISTAKE == 2  // expect within 9: a connector needs open\(\) without parameters
    cenote::pool pool{other{}};
#elif CENOTE_MISTAKE == 3  // expect within 9: the options of a pool come after its connector
    cenote::pool<session> pool{cenote::options{}};
#elif CENOTE_MISTAKE == 4  // expect within 9: not a pointer or a std::unique_ptr
    connector mine;
    cenote::pool<session> pool{&mine};
#elif CENOTE_MISTAKE == 5  // expect within 9: not a pointer or a std::unique_ptr
    cenote::pool<session> pool{std::make_unique<connector>()};
#elif CENOTE_MISTAKE == 6  // expect within 9: cannot be copied: pass it with std::move
    cenote::pool<session> pool{open};
#elif CENOTE_MISTAKE == 7  // expect within 9: must return the pool's resource type
    cenote::pool<session> pool{[] { return std::make_unique<session>(); }};
#else
    cenote::pool<session> pool{connector{}};
    cenote::pool deduced{connector{}};
    cenote::pool<session> shared{std::make_shared<connector>()};
    cenote::pool<session> moved{std::move(open)};
#endif
}

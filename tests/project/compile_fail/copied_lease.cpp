// expect: deleted
#include <utility>

#include <cenote/pool.hpp>

void a_lease_cannot_be_copied(cenote::lease<int> first) {
#ifdef CENOTE_CONTROL
    auto second = std::move(first);
#else
    auto second = first;
#endif
}

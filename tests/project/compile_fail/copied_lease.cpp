// expect: deleted
#include <utility>

#include <cenote/pool.hpp>

void two_holders_of_one_resource(cenote::lease<int> first) {
#ifdef CENOTE_CONTROL
    auto second = std::move(first);
#else
    auto second = first;
#endif
}

// expect: no matching|no viable
#include <cenote/pool.hpp>

void only_a_pool_makes_leases(int& mine) {
#ifdef CENOTE_CONTROL
    cenote::lease<int> lease;
    static_cast<void>(mine);
#else
    cenote::lease<int> lease(&mine);
#endif
}

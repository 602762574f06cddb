// expect: must be a movable object type
#include <cenote/pool.hpp>

struct resource {
    resource() = default;
#ifdef CENOTE_CONTROL
    resource(resource&&) = default;
#else
    resource(resource&&) = delete;
#endif
};

template class cenote::pool<resource>;

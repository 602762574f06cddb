// expect: the connector's forsake must accept a T& and return nothing
#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    void forsake(session&) {}
#else
    bool forsake(session&) { return true; }
#endif
};

void the_result_would_be_ignored() { cenote::pool<session> pool{connector{}}; }

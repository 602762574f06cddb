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

void nobody_would_hear_the_answer() { cenote::pool<session> pool{connector{}}; }

// expect: the connector's before_acquire must accept a T& and return bool or nothing
#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    cenote::verdict before_release(session&) { return cenote::verdict::reset; }
#else
    cenote::verdict before_acquire(session&) { return cenote::verdict::reset; }
#endif
};

void before_acquire_returns_a_verdict() { cenote::pool<session> pool{connector{}}; }

// expect: the connector's close must accept a T&
#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    void close(session&) {}
#else
    void close() {}
#endif
};

void close_would_not_be_called() { cenote::pool<session> pool{connector{}}; }

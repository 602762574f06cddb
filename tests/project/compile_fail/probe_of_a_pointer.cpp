// expect: the connector's probe must accept a T& and return bool or nothing
#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    bool probe(session&) { return true; }
#else
    bool probe(session*) { return true; }
#endif
};

void probe_would_not_be_called() { cenote::pool<session> pool{connector{}}; }

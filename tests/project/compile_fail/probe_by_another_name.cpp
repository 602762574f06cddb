// expect: the pool never calls the connector's is_alive: name it probe
#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    bool probe(session&) { return true; }
#endif
    bool is_alive(session&) { return true; }
};

void is_alive_would_not_be_called() { cenote::pool<session> pool{connector{}}; }

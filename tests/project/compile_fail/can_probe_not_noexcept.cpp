// expect: the connector's can_probe must be const, noexcept and return bool
#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
    bool probe(session&) { return true; }
#ifdef CENOTE_CONTROL
    bool can_probe() const noexcept { return false; }
#else
    bool can_probe() const { return false; }
#endif
};

void can_probe_would_not_be_called() { cenote::pool<session> pool{connector{}}; }

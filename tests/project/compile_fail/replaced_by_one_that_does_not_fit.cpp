// expect: the connector's reset must accept a T& and return bool or nothing
#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    void reset(session&) {}
#else
    int reset(session&) { return 0; }
#endif
};

void reset_would_not_be_called(cenote::pool<session>& pool) { pool.replace_connector(connector{}); }

// expect: the connector's reset must accept a T& and return bool or nothing
#include <system_error>

#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    bool reset(session&) { return true; }
#else
    std::error_code reset(session&) { return {}; }
#endif
};

void an_error_code_would_mean_the_opposite() { cenote::pool<session> pool{connector{}}; }

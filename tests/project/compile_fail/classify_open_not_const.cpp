// expect: the connector's classify_open must be const
#include <exception>

#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    cenote::verdict classify_open(std::exception_ptr) const { return cenote::verdict::keep; }
#else
    cenote::verdict classify_open(std::exception_ptr) { return cenote::verdict::keep; }
#endif
};

void classify_open_would_not_be_called() { cenote::pool<session> pool{connector{}}; }

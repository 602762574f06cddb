// expect: the connector's classify must be const
#include <exception>

#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    cenote::verdict classify(std::exception_ptr) const { return cenote::verdict::keep; }
#else
    cenote::verdict classify(std::exception_ptr) { return cenote::verdict::keep; }
#endif
};

void classify_would_not_be_called() { cenote::pool<session> pool{connector{}}; }

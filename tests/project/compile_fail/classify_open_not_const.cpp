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

void an_opinion_that_would_never_be_asked() { cenote::pool<session> pool{connector{}}; }

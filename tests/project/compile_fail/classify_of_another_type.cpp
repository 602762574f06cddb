// expect: accept a std::exception_ptr and return cenote::verdict
#include <exception>

#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    static cenote::verdict classify(const std::exception_ptr&) { return cenote::verdict::keep; }
#else
    static cenote::verdict classify(const std::exception&) { return cenote::verdict::keep; }
#endif
};

void classify_takes_another_type() { cenote::pool<session> pool{connector{}}; }

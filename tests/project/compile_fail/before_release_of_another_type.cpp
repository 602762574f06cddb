// expect: before_release must accept a T& and return bool, cenote::verdict or nothing
#include <string>

#include <cenote/pool.hpp>

struct session {};

struct connector {
    session open() { return {}; }
#ifdef CENOTE_CONTROL
    bool before_release(const session&) { return true; }
#else
    bool before_release(const std::string&) { return true; }
#endif
};

void before_release_takes_another_type() { cenote::pool<session> pool{connector{}}; }

// expect: a hook of unit_of_work must return bool or nothing
#include <system_error>

#include <cenote/unit_of_work.hpp>

struct session {};

#ifdef CENOTE_CONTROL
void roll_back(session&) {}
#else
std::error_code roll_back(session&) { return {}; }
#endif

void a_failure_that_would_be_ignored() {
    cenote::unit_of_work units{[] { return session{}; }, {.rollback = roll_back}};
}

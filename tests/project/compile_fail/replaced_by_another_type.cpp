// expect: must return
#include <string>
#include <vector>

#include <cenote/pool.hpp>

void the_new_one_opens_something_else(cenote::pool<std::string>& pool) {
#ifdef CENOTE_CONTROL
    pool.replace_connector([] { return "a"; });
#else
    pool.replace_connector([] { return std::vector<int>{1}; });
#endif
}

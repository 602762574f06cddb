// expect: must return
#include <string>
#include <vector>

#include <cenote/pool.hpp>

void the_new_connector_opens_another_type(cenote::pool<std::string>& pool) {
#ifdef CENOTE_CONTROL
    pool.replace_connector([] { return "a"; });
#else
    pool.replace_connector([] { return std::vector<int>{1}; });
#endif
}

// expect: must return
#include <string>
#include <vector>

#include <cenote/pool.hpp>

void open_returns_another_type() {
#ifdef CENOTE_CONTROL
    auto open = [] { return std::string{"a"}; };
#else
    auto open = [] { return std::vector<int>{1}; };
#endif
    cenote::pool<std::string> pool{open};
}

// expect: must be a movable object type
#include <cenote/pool.hpp>

#ifdef CENOTE_CONTROL
template class cenote::pool<int>;
#else
template class cenote::pool<int&>;
#endif

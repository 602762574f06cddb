// expect: discards qualifiers|not marked const|drops 'const' qualifier|const qualifier
#include <cenote/pool.hpp>

#ifdef CENOTE_CONTROL
void a_const_lease_cannot_end(cenote::lease<int>& lease) { lease.give_back(); }
#else
void a_const_lease_cannot_end(const cenote::lease<int>& lease) { lease.give_back(); }
#endif

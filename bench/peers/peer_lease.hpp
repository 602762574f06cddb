// The lease of a peer's pool, so that all peers have the same interface.
#pragma once

#include "../subjects.hpp"

namespace cenote::bench {

/// Returns the resource with `pool.put()`.
template <class Pool>
class peer_lease {
public:
    peer_lease(Pool& pool, resource* leased) noexcept : pool_(pool), leased_(leased) {}
    peer_lease(const peer_lease&) = delete;
    peer_lease& operator=(const peer_lease&) = delete;
    ~peer_lease() { pool_.put(leased_); }

    resource* operator->() const noexcept { return leased_; }

private:
    Pool& pool_;
    resource* leased_;
};

}  // namespace cenote::bench

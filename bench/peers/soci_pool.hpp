// SOCI's connection_pool as a peer. It leases session numbers, so the resources are beside it.
#pragma once

#include <chrono>
#include <cstddef>
#include <soci/connection-pool.h>
#include <vector>

#include "../subjects.hpp"

namespace cenote::bench {

class soci_pool {
public:
    explicit soci_pool(std::size_t size) : resources_(size), pool_(size) {}

    class lease {
    public:
        explicit lease(soci_pool& pool) : pool_(pool), which_(pool.pool_.lease()) {}
        lease(const lease&) = delete;
        lease& operator=(const lease&) = delete;
        ~lease() { pool_.pool_.give_back(which_); }

        resource* operator->() const noexcept { return &pool_.resources_[which_]; }

    private:
        soci_pool& pool_;
        std::size_t which_;
    };

    lease acquire() { return lease(*this); }
    bool is_refused_after(std::chrono::milliseconds timeout) {
        std::size_t which = 0;
        if (!pool_.try_lease(which, static_cast<int>(timeout.count()))) return true;
        pool_.give_back(which);
        return false;
    }

private:
    std::vector<padded_resource> resources_;
    soci::connection_pool pool_;
};

}  // namespace cenote::bench

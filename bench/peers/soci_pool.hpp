// SOCI's connection_pool. It numbers its sessions, so the things lie beside it.
#pragma once

#include <chrono>
#include <cstddef>
#include <soci/connection-pool.h>
#include <vector>

#include "../subjects.hpp"

namespace cenote::bench {

class soci_pool {
public:
    explicit soci_pool(std::size_t size) : things_(size), pool_(size) {}

    class lease {
    public:
        explicit lease(soci_pool& home) : home_(home), which_(home.pool_.lease()) {}
        lease(const lease&) = delete;
        lease& operator=(const lease&) = delete;
        ~lease() { home_.pool_.give_back(which_); }

        thing* operator->() const noexcept { return &home_.things_[which_]; }

    private:
        soci_pool& home_;
        std::size_t which_;
    };

    lease acquire() { return lease(*this); }
    bool is_refused_after(std::chrono::milliseconds patience) {
        std::size_t which = 0;
        if (!pool_.try_lease(which, static_cast<int>(patience.count()))) return true;
        pool_.give_back(which);
        return false;
    }

private:
    std::vector<lone_thing> things_;
    soci::connection_pool pool_;
};

}  // namespace cenote::bench

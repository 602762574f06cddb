// A pool from oneTBB's concurrent_bounded_queue.
#pragma once

#include <cstddef>
#include <oneapi/tbb/concurrent_queue.h>
#include <vector>

#include "peer_lease.hpp"

namespace cenote::bench {

class tbb_pool {
public:
    explicit tbb_pool(std::size_t size) : resources_(size) {
        for (padded_resource& t : resources_) free_.push(&t);
    }

    peer_lease<tbb_pool> acquire() {
        resource* taken = nullptr;
        free_.pop(taken);
        return {*this, taken};
    }
    void put(resource* back) { free_.push(back); }

private:
    std::vector<padded_resource> resources_;
    oneapi::tbb::concurrent_bounded_queue<resource*> free_;
};

}  // namespace cenote::bench

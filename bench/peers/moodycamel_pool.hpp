// A pool from moodycamel's BlockingConcurrentQueue.
#pragma once

#include <chrono>
#include <concurrentqueue/blockingconcurrentqueue.h>
#include <cstddef>
#include <vector>

#include "peer_lease.hpp"

namespace cenote::bench {

class moodycamel_pool {
public:
    explicit moodycamel_pool(std::size_t size) : resources_(size) {
        for (padded_resource& t : resources_) free_.enqueue(&t);
    }

    peer_lease<moodycamel_pool> acquire() {
        resource* taken = nullptr;
        free_.wait_dequeue(taken);
        return {*this, taken};
    }
    bool is_refused_after(std::chrono::milliseconds timeout) {
        resource* got = nullptr;
        if (!free_.wait_dequeue_timed(got, timeout)) return true;
        put(got);
        return false;
    }
    void put(resource* back) { free_.enqueue(back); }

private:
    std::vector<padded_resource> resources_;
    moodycamel::BlockingConcurrentQueue<resource*> free_;
};

}  // namespace cenote::bench

// oneTBB's bounded queue of what is free.
#pragma once

#include <cstddef>
#include <oneapi/tbb/concurrent_queue.h>
#include <vector>

#include "../lent.hpp"

namespace cenote::bench {

class tbb_pool {
public:
    explicit tbb_pool(std::size_t size) : things_(size) {
        for (lone_thing& t : things_) free_.push(&t);
    }

    lent<tbb_pool> acquire() {
        thing* taken = nullptr;
        free_.pop(taken);
        return {*this, taken};
    }
    void put(thing* back) { free_.push(back); }

private:
    std::vector<lone_thing> things_;
    oneapi::tbb::concurrent_bounded_queue<thing*> free_;
};

}  // namespace cenote::bench

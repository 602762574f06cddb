// moodycamel's blocking queue of what is free.
#pragma once

#include <chrono>
#include <concurrentqueue/blockingconcurrentqueue.h>
#include <cstddef>
#include <vector>

#include "../lent.hpp"

namespace cenote::bench {

class moodycamel_pool {
public:
    explicit moodycamel_pool(std::size_t size) : things_(size) {
        for (lone_thing& t : things_) free_.enqueue(&t);
    }

    lent<moodycamel_pool> acquire() {
        thing* taken = nullptr;
        free_.wait_dequeue(taken);
        return {*this, taken};
    }
    bool is_refused_after(std::chrono::milliseconds patience) {
        thing* got = nullptr;
        if (!free_.wait_dequeue_timed(got, patience)) return true;
        put(got);
        return false;
    }
    void put(thing* back) { free_.enqueue(back); }

private:
    std::vector<lone_thing> things_;
    moodycamel::BlockingConcurrentQueue<thing*> free_;
};

}  // namespace cenote::bench

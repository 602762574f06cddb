// The well-known recipe: a semaphore counts what is free, a mutex guards the stack of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <semaphore>
#include <vector>

#include "../lent.hpp"

namespace cenote::bench {

class semaphore_pool {
public:
    explicit semaphore_pool(std::size_t size)
        : things_(size), free_(static_cast<std::ptrdiff_t>(size)) {
        for (lone_thing& t : things_) stack_.push_back(&t);
    }

    lent<semaphore_pool> acquire() {
        free_.acquire();
        return {*this, pop()};
    }
    bool is_refused_after(std::chrono::milliseconds patience) {
        if (!free_.try_acquire_for(patience)) return true;
        put(pop());
        return false;
    }
    void put(thing* back) noexcept {
        {
            std::lock_guard lock(mutex_);
            stack_.push_back(back);  // there was room for it
        }
        free_.release();
    }

private:
    thing* pop() {
        std::lock_guard lock(mutex_);
        thing* taken = stack_.back();
        stack_.pop_back();
        return taken;
    }

    std::vector<lone_thing> things_;
    std::counting_semaphore<> free_;
    std::mutex mutex_;
    std::vector<thing*> stack_;
};

}  // namespace cenote::bench

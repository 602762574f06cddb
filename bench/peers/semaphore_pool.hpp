// A well-known recipe: a semaphore counts the idle resources, a mutex guards their stack.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <semaphore>
#include <vector>

#include "peer_lease.hpp"

namespace cenote::bench {

class semaphore_pool {
public:
    explicit semaphore_pool(std::size_t size)
        : resources_(size), free_(static_cast<std::ptrdiff_t>(size)) {
        for (padded_resource& t : resources_) stack_.push_back(&t);
    }

    peer_lease<semaphore_pool> acquire() {
        free_.acquire();
        return {*this, pop()};
    }
    bool is_refused_after(std::chrono::milliseconds timeout) {
        if (!free_.try_acquire_for(timeout)) return true;
        put(pop());
        return false;
    }
    void put(resource* back) noexcept {
        {
            std::lock_guard lock(mutex_);
            stack_.push_back(back);  // within the capacity
        }
        free_.release();
    }

private:
    resource* pop() {
        std::lock_guard lock(mutex_);
        resource* taken = stack_.back();
        stack_.pop_back();
        return taken;
    }

    std::vector<padded_resource> resources_;
    std::counting_semaphore<> free_;
    std::mutex mutex_;
    std::vector<resource*> stack_;
};

}  // namespace cenote::bench

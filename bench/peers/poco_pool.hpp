// POCO's ObjectPool.
#pragma once

#include <Poco/ObjectPool.h>
#include <chrono>
#include <cstddef>
#include <vector>

#include "../lent.hpp"

namespace cenote::bench {

class poco_pool {
public:
    explicit poco_pool(std::size_t size) : pool_(size, size) {
        std::vector<lone_thing*> all;
        for (std::size_t i = 0; i < size; ++i) all.push_back(pool_.borrowObject());
        for (lone_thing* each : all) pool_.returnObject(each);
    }

    lent<poco_pool> acquire() { return {*this, pool_.borrowObject(for_ever)}; }
    bool is_refused_after(std::chrono::milliseconds patience) {
        lone_thing* got = pool_.borrowObject(patience.count());
        if (got == nullptr) return true;
        put(got);
        return false;
    }
    void put(thing* back) { pool_.returnObject(static_cast<lone_thing*>(back)); }

private:
    static constexpr long for_ever = 1'000'000;  // ms; 0 would not wait at all

    Poco::ObjectPool<lone_thing> pool_;
};

}  // namespace cenote::bench

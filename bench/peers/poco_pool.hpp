// POCO's ObjectPool as a peer.
#pragma once

#include <Poco/ObjectPool.h>
#include <chrono>
#include <cstddef>
#include <vector>

#include "peer_lease.hpp"

namespace cenote::bench {

class poco_pool {
public:
    explicit poco_pool(std::size_t size) : pool_(size, size) {
        std::vector<padded_resource*> all;
        for (std::size_t i = 0; i < size; ++i) all.push_back(pool_.borrowObject());
        for (padded_resource* each : all) pool_.returnObject(each);
    }

    peer_lease<poco_pool> acquire() { return {*this, pool_.borrowObject(for_ever)}; }
    bool is_refused_after(std::chrono::milliseconds timeout) {
        padded_resource* got = pool_.borrowObject(timeout.count());
        if (got == nullptr) return true;
        put(got);
        return false;
    }
    void put(resource* back) { pool_.returnObject(static_cast<padded_resource*>(back)); }

private:
    static constexpr long for_ever = 1'000'000;  // ms; 0 would not wait at all

    Poco::ObjectPool<padded_resource> pool_;
};

}  // namespace cenote::bench

// Checks that long leases are reported: plays the keeper's part and predicts the reports.
#pragma once

#include <cstdint>
#include <vector>

#include "core/instant.hpp"
#include "core/leaks.hpp"
#include "core/machine.hpp"

namespace cenote::sim {

/// Shows leases to core::leaks as the keeper does, and compares the reports with a record of its
/// own.
class lease_watch {
public:
    explicit lease_watch(std::size_t places) : leaks_(places, limit), records_(places) {}

    /// To be called after every step. Returns null, or what is wrong.
    const char* look(core::instant now, const core::machine& it);

private:
    static constexpr core::duration limit = std::chrono::milliseconds{40};

    /// The lease that a slot was last seen with.
    struct record {
        std::uint64_t number = 0;
        std::uint64_t reports = 0;
        core::duration reported_at{};  // its length at the last report
    };

    static std::uint64_t number_of(const core::slot& s);
    static core::duration own_limit(std::uint64_t number);
    static bool is_due(const record& r, core::duration held);
    void meet(const core::machine& it);
    bool shows(core::instant now, core::slot_id id, const core::slot& s);

    core::leaks leaks_;
    std::vector<record> records_;
    std::uint64_t reported_ = 0;  // leases, each counted once
};

}  // namespace cenote::sim

// The events of the watched pools: the latest ones, and what was wrong with each pool last.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cenote/detail/process.hpp"
#include "cenote/observer.hpp"

namespace cenote::detail {

/// Longer texts are cut: they are sent every second.
inline constexpr std::size_t shown_text_max = 400;
inline std::string_view shown_part(std::string_view text) { return text.substr(0, shown_text_max); }

/// As JSON: milliseconds since 1970.
std::string time_text(std::chrono::system_clock::time_point at);

/// Identifies a pool by the address of its name, since names may repeat. A later pool may get the
/// same address, but every event of the earlier pool precedes the first lease of the later one.
using pool_identity = const void*;

/// Why a pool has trouble: the last event of one kind.
struct cause {
    event_kind kind{};
    std::string text;
    std::uint64_t times = 0;  ///< How often an event of this kind was reported.
    std::chrono::system_clock::time_point at;
};

/// The latest events of all pools, repetitions counted; which leases are suspected leaks; and for
/// each pool the last error of each kind.
///
/// Thread safety: all members may be called from any thread at any time.
class event_log final : public observer {
public:
    static constexpr std::size_t size_max = 100;
    /// Pools whose errors and leaks are kept. For one more, the pool whose last error is the oldest
    /// is forgotten.
    static constexpr std::size_t pools_max = 2000;
    /// The kinds of events whose last one is kept.
    static constexpr std::array<event_kind, 5> causes_kept{
        event_kind::open_failed, event_kind::probe_failed, event_kind::reset_failed,
        event_kind::nested_acquire, event_kind::loop_blocked};

    void on_event(const event& what) override;
    bool wants(event_kind kind) const override;

    /// What the page calls a pool.
    struct label {
        pool_identity pool = nullptr;
        std::string own_name;
        std::string shown_name;
    };
    /// The events as JSON, latest first. Pools without a label appear under their own names.
    std::string json(const std::vector<label>& labels = {}) const;
    /// The last event of each kind in `causes_kept`, the latest first.
    std::vector<cause> causes_of(pool_identity pool) const;
    /// Whether a leak was reported for this resource since its lease began.
    bool is_suspect(pool_identity pool, std::uint64_t resource,
                    std::chrono::steady_clock::time_point lease_began) const;
    /// Whether a leak was reported at all. If not, no lease of the pool is a suspect.
    bool has_leaks(pool_identity pool) const;
    /// Drops what is kept of a pool, which is no longer watched.
    void forget(pool_identity pool);

private:
    struct entry {
        pool_identity pool = nullptr;
        std::string pool_name;
        std::string subject;
        event_kind kind{};
        std::string text;
        std::uint64_t times = 1;
        std::chrono::system_clock::time_point at;
    };
    struct leak_report {
        std::uint64_t resource = 0;
        std::chrono::steady_clock::time_point at;
    };
    struct trouble {
        std::array<std::optional<cause>, causes_kept.size()> causes;
        std::deque<leak_report> leaks;
        std::uint64_t number = 0;  // of the last change, among those of all pools
    };

    void add(entry now);
    void note_trouble(const event& what, const entry& now);
    trouble& trouble_of(pool_identity pool);

    const process_number process_ = this_process;
    mutable std::mutex mutex_;
    std::deque<entry> entries_;
    std::map<pool_identity, trouble> troubles_;
    std::uint64_t changes_ = 0;
};

}  // namespace cenote::detail

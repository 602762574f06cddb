// Leases and waiters grouped by the line of code that acquired them and by task.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <source_location>
#include <string_view>
#include <tuple>
#include <vector>

namespace cenote::vocabulary {

/// What one line of code has for one task: leases, or places in line.
struct place {
    std::source_location site;
    std::string_view task;
    std::chrono::nanoseconds oldest{};
    std::size_t count = 1;
};

inline auto key_of(const place& p) {
    return std::tuple(std::string_view(p.site.file_name()), p.site.line(), p.task);
}

/// One entry for each line of code and task. The entries that have most come first. `Info` is
/// lease_info with `held`, or waiter_info with `waited`.
template <class Info>
std::vector<place> group_by_place(const std::vector<Info>& all,
                                  std::chrono::nanoseconds Info::* age) {
    std::vector<place> places;
    for (const Info& each : all) {
        place one{
            .site = each.site, .task = each.task == nullptr ? "" : each.task, .oldest = each.*age};
        auto same = std::ranges::find(places, key_of(one), key_of);
        if (same == places.end()) {
            places.push_back(one);
            continue;
        }
        ++same->count;
        same->oldest = std::max(same->oldest, one.oldest);
    }
    std::ranges::sort(places, [](const place& a, const place& b) {
        return a.count != b.count ? a.count > b.count : key_of(a) < key_of(b);
    });
    return places;
}

}  // namespace cenote::vocabulary

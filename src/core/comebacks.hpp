// Estimates whether threads that release a resource acquire again at once, so that setting
// resources aside for them pays off.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cenote::core {

/// Counts in lends. A thread that does not come back costs as much as `price` threads that do come
/// back save. When the balance is used up, no resource is set aside during the next lends; each
/// such pause is longer than the last.
class comebacks {
public:
    /// Whether setting aside pays off after `lends` lends.
    bool are_likely(std::uint64_t lends) const { return lends >= direct_until_; }
    /// A thread took the resource that was set aside for it.
    void came() {
        credit_ = std::min(credit_ + 1, most);
        pause_ = first_pause;
    }
    /// The thread did not come. Resources that were set aside before a pause began count once.
    void missed(std::uint64_t lends) {
        if (!are_likely(lends)) return;
        if (credit_ >= price) {
            credit_ -= price;
            return;
        }
        credit_ = 0;
        direct_until_ = lends + pause_;
        pause_ = std::min(2 * pause_, longest_pause);
    }

private:
    static constexpr std::uint32_t price = 16;
    static constexpr std::uint32_t most = 32;
    static constexpr std::uint64_t first_pause = 64;
    static constexpr std::uint64_t longest_pause = 4096;

    std::uint32_t credit_ = 0;
    std::uint64_t pause_ = first_pause;
    std::uint64_t direct_until_ = 0;
};

}  // namespace cenote::core
